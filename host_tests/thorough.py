"""What `INFLIGHT_TOOLS=1 make test` tries, and `make test` leaves out: more of what other cases prove already; and
what `make crash` and `make test-pipeline` alone try."""

import os

import pytest

THOROUGH = bool(os.environ.get("INFLIGHT_TOOLS"))
ALL_CUTS = bool(os.environ.get("INFLIGHT_ALL_CUTS"))
PIPELINE = bool(os.environ.get("INFLIGHT_PIPELINE"))


def more(*values):
    """Values of a parameter."""
    return [pytest.param(value, marks=pytest.mark.long("INFLIGHT_TOOLS")) for value in values]


def some(values, apart):
    """All values of a sequence, or only those so far apart."""
    return values if THOROUGH else values[::apart]

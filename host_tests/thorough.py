"""What `INFLIGHT_TOOLS=1 make test` tries, and `make test` leaves out: more of what other cases prove already."""

import os

import pytest

THOROUGH = bool(os.environ.get("INFLIGHT_TOOLS"))


def more(*values):
    """Values of a parameter."""
    return [pytest.param(value, marks=pytest.mark.long("INFLIGHT_TOOLS")) for value in values]


def some(values, apart):
    """All values of a sequence, or only those so far apart."""
    return values if THOROUGH else values[::apart]

"""Shared by tests of power cuts: granularities of flash, and how far apart the cuts are."""

import os

# Bytes of the smallest program operation.
GRANULARITIES = {"page-1": 1, "page-4": 4, "page-64": 64, "page-256": 256}
# Bytes between cuts within an operation.
APART = 1 if os.environ.get("INFLIGHT_ALL_CUTS") else 11

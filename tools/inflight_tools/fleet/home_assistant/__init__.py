"""Readings that arrived late, in the statistics of Home Assistant."""

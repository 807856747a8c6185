"""Fixtures: tables of a small fleet, written without Spark."""

from host_tests.tools.fleet.where.conftest import pytest_pycollect_makemodule, tables

__all__ = ["pytest_pycollect_makemodule", "tables"]

"""Fixtures: tables of a small fleet, written without Spark."""

import pytest

from host_tests.tools.fleet.where.conftest import run, tables

__all__ = ["run", "tables"]


@pytest.fixture
def fleet(tmp_path):
    from host_tests.tools.fleet.without_spark import Fleet

    return Fleet(tmp_path)


@pytest.fixture(scope="module")
def common_fleet(tmp_path_factory):
    """One for all tests of a file. Each test has devices of its own."""
    from host_tests.tools.fleet.without_spark import Fleet

    return Fleet(tmp_path_factory.mktemp("fleet"))

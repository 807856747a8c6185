"""Fixtures: a console."""

import pytest


@pytest.fixture
def serve(tmp_path):
    """serve(...) returns a Served, with the arguments of Access."""
    from inflight_tools.fleet.console.access import Access

    from .served import Served

    running = []

    def start(token=None, beside=None, **how):
        running.append(Served(tmp_path, Access("127.0.0.1", **how), token, beside))
        return running[-1]

    yield start
    for one in running:
        one.close()

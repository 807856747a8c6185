"""Fixtures: a console."""

import pytest


@pytest.fixture
def serve(tmp_path):
    """serve(...) returns a Served of these tables, or of those of `live`, with the arguments of Access."""
    from inflight_tools.fleet.console.access import Access

    from .served import Served

    running = []

    def start(token=None, beside=None, live=None, **how):
        running.append(Served(tmp_path, Access("127.0.0.1", **how), token, beside, live))
        return running[-1]

    yield start
    for one in running:
        one.close()

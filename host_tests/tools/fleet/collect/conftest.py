"""Fixtures: a broker, the collector, and its landing files."""

from functools import partial

import pytest

from host_tests.broker import Broker
from host_tests.processes import started
from host_tests.tools.fleet.collect.collecting import Landing, Program


@pytest.fixture
def serve(mosquitto):
    """serve(line, ...) starts a mosquitto that hands out many messages at once, with these lines."""
    return partial(mosquitto, "max_inflight_messages 2000")


@pytest.fixture
def broker(serve):
    return serve()


@pytest.fixture
def landing(tmp_path):
    return Landing(tmp_path / "landing")


@pytest.fixture
def collect(landing):
    """collect(option, ...) starts the collector as a process, with short intervals, and without markers: a message
    more, at a time that depends on how busy the machine is."""
    always = ("--landing", landing.folder, "--age", 0.2, "--report", 0.2, "--marker", 0)
    with started(Program, Program.kill) as start:
        yield partial(start, *always)


@pytest.fixture
def scripted():
    """A broker that plays scripts."""
    broker = Broker(real_time=True)
    yield broker
    broker.close()

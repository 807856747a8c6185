"""Fixtures: a broker, the collector, and its landing files."""

import pytest

from dev.demo import mosquitto
from host_tests.inflight_tools.fleet.collect.collecting import Landing, Program

_LINES = "max_inflight_messages 2000", "max_queued_messages 0"


@pytest.fixture
def serve(tmp_path):
    """serve(line, ...) starts a mosquitto with these lines in its configuration."""
    reason = mosquitto.unavailable()
    if reason:
        pytest.skip(reason)
    running = []

    def start(*lines):
        running.append(mosquitto.Mosquitto(tmp_path / f"broker-{len(running)}", *_LINES, *lines).start())
        return running[-1]

    yield start
    for broker in running:
        broker.kill()


@pytest.fixture
def broker(serve):
    return serve()


@pytest.fixture
def landing(tmp_path):
    return Landing(tmp_path / "landing")


@pytest.fixture
def collect(landing):
    """collect(option, ...) starts the collector as a process, with short intervals."""
    programs = []

    def start(*options, **kwargs):
        programs.append(Program("--landing", landing.folder, "--age", 0.2, "--report", 0.2, *options, **kwargs))
        return programs[-1]

    yield start
    for program in programs:
        program.kill()

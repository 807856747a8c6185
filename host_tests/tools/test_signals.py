"""Tests of tools/inflight_tools/signals.py: what a signal does while a command runs, and what it does behind it."""

import os
import signal
import threading

import pytest

from inflight_tools.signals import on_stop, stop_event


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_calls(number):
    came = []
    with on_stop(lambda: came.append(1)):
        os.kill(os.getpid(), number)
    assert came == [1]


def test_a_signal_sets_the_event():
    with stop_event() as stopping:
        assert not stopping.is_set()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stopping.wait(240)


def test_a_hangup_that_is_ignored_stays_ignored():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with on_stop(lambda: pytest.fail("the command was ended")):
            os.kill(os.getpid(), signal.SIGHUP)
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("make", [lambda: on_stop(list), stop_event])
def test_nothing_is_left_behind(make):
    """A process that is forked later has the handlers: with one of these nobody could end it."""
    numbers = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
    before, threads = [signal.getsignal(number) for number in numbers], threading.active_count()
    with pytest.raises(ValueError), make():
        raise ValueError
    assert [signal.getsignal(number) for number in numbers] == before and threading.active_count() == threads

# What an emulated board does in a test: the task that it is given, noting what publish() has accepted.

import os

from micropython import const

import board
import config
import harness
from inflight import Client

_CRASH = const(7)
_HANG = const(8)  # tasks of sensors whose firmware fails
_FAILS = const(3)  # at the first telemetry from this number on
_FAILED = "/failed"
_PLAIN = const(999)  # task: messages of QoS 0
_PUBLISH = const(1000)  # tasks from here on: the number of a publisher, and 1000 more if it stays offline


def accepted(seq, qos, topic):
    harness.note(seq << 2 | qos)


def fail(seq, qos, topic):
    # Once: after the new start it is fine. Other messages may be published in a callback, whose errors are reported.
    accepted(seq, qos, topic)
    if seq >= _FAILS and topic == "telemetry" and not exists(_FAILED):
        open(_FAILED, "w").close()
        if harness.task() == _CRASH:
            raise RuntimeError("a defect")
        while True:
            pass


def exists(path):
    try:
        os.stat(path)
    except OSError:
        return False
    return True


def main():
    settings = config.load("/0.json", "")
    board.accepted = accepted
    if not harness.prepare(settings):
        return
    task = harness.task()
    if task in (_CRASH, _HANG):
        board.accepted = fail
    if task < _PLAIN:
        from start import main

        board.config_path = lambda: "/%d.json" % task
        main()
        return
    import publisher

    if task == _PLAIN:
        publisher.plain(settings)
        return
    number = task % _PUBLISH
    journal = harness.journal()
    client = Client(settings.host, "publisher%d" % number, journal, port=settings.port)
    publisher.run(client, journal, "cut/publisher%d/n" % number, accepted, settings, task < 2 * _PUBLISH)


main()

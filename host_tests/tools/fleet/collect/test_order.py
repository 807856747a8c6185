"""What is acknowledged, when, and in which order: with a scripted broker, and a disk that fails on demand."""

import errno
import os
import select
import threading
from pathlib import Path

import pytest

from host_tests.broker import PATIENCE_S
from host_tests.tools.fleet.collect.collecting import until
from inflight_tools.broker import Broker
from inflight_tools.fleet.collect.collector import Collector
from inflight_tools.fleet.collect.spool import Spool
from tools.reference.kinds import PUBACK
from tools.reference.wire import publish as delivery

TOPIC = "inflight/attic/telemetry"


class Disk:
    """An fsync that fails until `works` is set."""

    def __init__(self):
        self.works = threading.Event()
        self.failures = threading.Semaphore(0)

    def __call__(self, fd):
        if not self.works.is_set():
            self.failures.release()
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        os.fsync(fd)


@pytest.fixture
def play(landing, scripted):
    """play(script, ...) runs a collector with a broker that plays the script. The rest is for its Spool. Returns the
    collector's output."""
    landing.folder.mkdir()

    def run(script, **options):
        messages = []
        spool = Spool(landing.folder, "c", **options)
        server = Broker("127.0.0.1", scripted.port, "inflight", None, None, None, None)
        collector = Collector(server, "c", spool, messages.append, landing.folder / ".c.json", marker=0)

        def whole(broker):
            try:
                script(broker)
            finally:
                collector.stop()
            broker.goodbye()
            broker.cut()

        with scripted.play(whole):
            collector.run()
        return messages

    return run


def subscribe(broker, present=0):
    broker.welcome(present, client_id="c")
    broker.grant()


def wait_until_read(broker):
    """Returns when the collector has read all that was sent before."""
    broker.send(delivery(TOPIC, b"", qos=1, mid=1))
    broker.expect(PUBACK, mid=1)


def silent(broker):
    return not select.select([broker.connection.sock], [], [], 0)[0]


def test_after_the_sync_and_in_order(play, landing):
    disk = Disk()

    def script(broker):
        subscribe(broker)
        broker.send(*(delivery(TOPIC, b"%d" % mid, qos=1, mid=mid) for mid in (7, 3, 9)))
        for _ in range(2):
            assert disk.failures.acquire(timeout=PATIENCE_S)
        assert silent(broker)
        disk.works.set()
        for mid in (7, 3, 9):
            broker.expect(PUBACK, mid=mid)

    messages = play(script, sync=disk)
    assert landing.texts() == ["7", "3", "9"]
    assert [text for text in messages if "landing" in text or "disk" in text] == [
        "cannot write to the landing folder (Input/output error): free space on the disk; "
        "nothing is acknowledged until then",
        "the landing folder can be written again",
    ]


def test_not_on_another_connection(play, landing):
    """If the broker lost the session, another message may have the id there."""
    disk = Disk()

    def script(broker):
        subscribe(broker)
        broker.send(delivery(TOPIC, b"first", qos=1, mid=1))
        assert disk.failures.acquire(timeout=PATIENCE_S)
        broker.cut()
        disk.works.set()
        subscribe(broker)
        disk.works.clear()
        broker.send(delivery(TOPIC, b"second", qos=1, mid=1))
        assert disk.failures.acquire(timeout=PATIENCE_S)
        assert silent(broker)
        disk.works.set()
        broker.expect(PUBACK, mid=1)

    play(script, sync=disk)
    assert landing.texts() == ["first", "second"]


def test_subscribed_once(play):
    """With session present the broker has the subscriptions. A new SUBSCRIBE would deliver retained messages again."""

    def script(broker):
        subscribe(broker)
        wait_until_read(broker)
        broker.cut()
        broker.welcome(present=1)
        wait_until_read(broker)
        broker.cut()
        subscribe(broker, present=0)
        wait_until_read(broker)

    messages = play(script)
    assert sum(text.startswith("connected") for text in messages) == 3


def test_file_that_cannot_be_finished(play, landing, monkeypatch):
    """The spool takes the next messages, which are acknowledged. In the end all are in one file."""
    failed, rename = threading.Event(), Path.rename

    def full(path, target):
        if path.suffix == ".spool" and not failed.is_set():
            failed.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", full)

    def script(broker):
        subscribe(broker)
        wait_until_read(broker)
        assert failed.wait(PATIENCE_S)
        wait_until_read(broker)
        until(landing.read, "the file")

    messages = play(script, age=0.05)
    assert len(landing.files) == 1 and len(landing.lines) == 2
    problem = "cannot finish a landing file (No space left on device): retrying"
    assert [text for text in messages if "cannot" in text] == [problem]


def test_without_acknowledgement_at_qos_0(play, landing):
    def script(broker):
        subscribe(broker)
        broker.send(delivery(TOPIC, b"0"), delivery(TOPIC, b"1", qos=1, mid=1, dup=1))
        broker.expect(PUBACK, mid=1)

    play(script)
    assert [(line["text"], line["qos"], line["dup"]) for line in landing.read()] == [("0", 0, False), ("1", 1, True)]

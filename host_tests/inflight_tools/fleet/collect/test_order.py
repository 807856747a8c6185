"""What is acknowledged, when, and in which order: a broker that looks closely, a disk that fails on demand."""

import errno
import os
import select
import threading
from pathlib import Path

import pytest

from dev.reference.kinds import PUBACK
from dev.reference.wire import publish as delivery
from host_tests.broker import PATIENCE_S, Broker
from host_tests.inflight_tools.fleet.collect.collecting import until
from inflight_tools.boards.device.broker import Broker as Place
from inflight_tools.fleet.collect.collector import Collector
from inflight_tools.fleet.collect.spool import Spool

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
def play(landing):
    """play(script, disk, ...): a collector at a broker that plays the script, to its end; the rest is for its Spool.
    Returns what it said."""
    landing.folder.mkdir()
    broker = Broker()

    def run(script, disk, **options):
        said = []
        spool = Spool(landing.folder, "c", sync=disk, **options)
        place = Place("127.0.0.1", broker.port, "inflight", None, None, None, None)
        collector = Collector(place, "c", spool, said.append, landing.folder / ".c.json")

        def whole(broker):
            try:
                script(broker)
            finally:
                collector.stop()
            broker.goodbye()
            broker.cut()

        with broker.play(whole):
            collector.run()
        return said

    yield run
    broker.close()


def subscribe(broker, present=0):
    broker.welcome(present, client_id="c")
    broker.grant(1, 1, 1, 1)


def fence(broker):
    """What was sent before has been read."""
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

    said = play(script, disk)
    assert landing.texts() == ["7", "3", "9"]
    assert [text for text in said if "landing" in text or "disk" in text] == [
        "cannot write to the landing folder (Input/output error): make room; nothing is acknowledged until then",
        "the disk takes messages again",
    ]


def test_not_on_another_connection(play, landing):
    """There the broker may have given the id to another message, if it lost the session."""
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

    play(script, disk)
    assert landing.texts() == ["first", "second"]


def test_subscribed_once(play):
    """A session that is there has the subscriptions: made again they would bring everything retained again."""
    disk = Disk()
    disk.works.set()

    def script(broker):
        subscribe(broker)
        fence(broker)
        broker.cut()
        broker.welcome(present=1)
        fence(broker)
        broker.cut()
        subscribe(broker, present=0)
        fence(broker)

    said = play(script, disk)
    assert sum(text.startswith("connected") for text in said) == 3


def test_file_that_cannot_be_finished(play, landing, monkeypatch):
    """The spool goes on meanwhile: what comes is kept and acknowledged, and in the end all of it is in one file."""
    disk, failed, rename = Disk(), threading.Event(), Path.rename
    disk.works.set()

    def full(path, target):
        if path.suffix == ".spool" and not failed.is_set():
            failed.set()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", full)

    def script(broker):
        subscribe(broker)
        fence(broker)
        assert failed.wait(PATIENCE_S)
        fence(broker)
        until(landing.read, "the file")

    said = play(script, disk, age=0.05)
    assert len(landing.files) == 1 and len(landing.lines) == 2
    assert [text for text in said if "cannot" in text] == [
        "cannot finish a landing file (No space left on device): it goes on as a spool"
    ]


def test_without_acknowledgement_at_qos_0(play, landing):
    """What was published at QoS 0 comes at QoS 0."""
    disk = Disk()
    disk.works.set()

    def script(broker):
        subscribe(broker)
        broker.send(delivery(TOPIC, b"0"), delivery(TOPIC, b"1", qos=1, mid=1, dup=1))
        broker.expect(PUBACK, mid=1)

    play(script, disk)
    assert [(line["text"], line["qos"], line["dup"]) for line in landing.read()] == [("0", 0, False), ("1", 1, True)]

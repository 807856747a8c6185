"""Announcements of releases: what their signatures cover, and what is published of those that are refused."""

import json
import socket  # noqa: F401 (where there is none the file is skipped)
import sys
from binascii import a2b_base64

import announcement
import slot
import updating
from harness import eq, raises
from scratch import Folder, Replaced
from trial_app import App, Board
from update_record import FETCH, IDLE, Record, load, store

RUNTIMES = "cpython micropython-x86"

# Release 7 for the board "ram", as `inflight release` makes it, and that it is withdrawn: their key is gone.
KEY = (
    "zDDeeeWqlWssIrTqWz9fUSoDqyVUu8shVRTxA+ck9bMgAkoO2SFLwI7JCq8OFRZvg19gwaKq/1dDd8lRZhxZ/IdheRhtUzKH5jAieBx1jlx4zAwt"
    "UV7k/X0x4522yBpxvKh7zeZ8ESq/BQBiXfiakLzwWWbqgKOmmP/l5YRCV3FmjbYnH9PfzV3CND2jUN+RwCtNB+aOlJZlXt5JS1L87J753I7zzduM"
    "eoKZbl/HCtARcjpidNwnFDKKnxI8DRBISKyGzHG5HzoEKWap/Iw7Q/6kVgRzcWBEj+z+EGJN8bfqA3zrhBbgzRhrNGHj71DiwbhglL1YsnJ/BtXn"
    "bb9QwwZdZfsxLAfkowa7km2ebA+sKib6zGIZ47RywFpoW9ELDCYwB+BTiWbesagWpfZg4EMUt4p6qrVzc3Y4zSSabmjtgsteRlQV9MZY1+lAiNM8"
    "A0N+yZJKIXSVj5zujRlQj9vlSmMhH6Zs9H4LPgrowE7UDKHLTT4lXNVn0g2A8sC3"
)
BODY = (
    '{"release":7,"board":"ram","micropython":[[1,22],[2,0]],"mpy":6,"journal":2,"index":46,"sha256":"8ee90657c8cc3'
    '38572d19400b674f99be242dcea14fafedce07cc96281043caf","blocks":1,"size":646,"trial_s":300}'
)
SIGNATURE = a2b_base64(
    "BcWZlEXwvEK7Mr/31smfRyiBvEKv38N1/TO0QoW+eRMwKiURxeB4BER8YJExO7AOn15MLgcuZ2mlAKm5/Z8iotNKTGr9ZZgUJHt3WgkLDLTvvWKI"
    "aF67hc1dHp6lHOVIvL84t3MNf2V+F6PbwLGgXZuBl0pH011QXOqDm/NnRKmqhdsyckZKdDIZbEBnJjvOTJsaznelJnYzmCoXWhnHS9BRwsZAVBAG"
    "zq1Ko6EBqmjVXIzPxl1VXNTY/eEj8FtWXBiMNBB/X3zwPAbOUawftTM169Zhb7ym6LcOgA57JdzHWJbnwWAvVztlkpsnGQpa+k77zyvM0/Q23+ta"
    "QNm1KH92IecmMxR7+UQk8OFPxoQM6/+ounEW/qPpvnMoamyee25ec+ptsxLvH8n3ZhGriWaW8h2Ln68yHZmqFF9YPqwVsS7+D/HujfkchYRSHibT"
    "L25al9zhKkrU7JMSrSwlZz/XEnh5/yHbNHy3t65cb8FdmQcyJqpqGsq/qVTumcgy"
)
RELEASE = BODY.encode() + SIGNATURE
WITHDRAWN = b'{"release":7,"withdrawn":true}' + a2b_base64(
    "h4ffjgoT9sP8HrfM2fybMMGgo8sH48qCbBnWpDvnGu+aItkoZahZVbJu+Mvib8U2m1DS4ODk12CesvkAbdXy1PGbr1FYUaP1haPI+8IfRk74cAM6"
    "Y+AQzdWnU1BJaIiGsfyiKdAYoy6DB6sjdc9cVOxZXmWp83NlOBTnJZBkYp4BCcARnK+tCUo93pL1fKXEUr4pCgwsDkvnMrusH4RlkReuvcXLqgfb"
    "WPR13KH28HScIjkUiFXlH9bVaXLXb5k1cwmeNkTtJf+ACj9I/Gf4oSYtzYZUbYPpHBZzUjU3Yxe0SUtUGRclhr7Nptq5Xb0qTcIIu3cWSyeLVpoD"
    "NLuHEtMii1gmgSuEIlS7B+eS+RIYu12qfnX2QSeDT4o2jUQIUahKuJIBZLjcUUo1ycbtCL5SnLRiWWeARkVNO+CNIDJ9MTlv24eRBcrnlf3zsTt9"
    "8UXVzAmTf2xXlX6vh3VMzlDhcAqv+ggfu6wr1227q5BYX7tdcupQfBpSbTooAiZB"
)
FORGED = bytes(len(SIGNATURE))
OTHER_KEY = KEY[:-4] + "AAAB"
NOT_SIGNED = "not signed by a key of this device"


class Implementation:
    # Of CPython, which passes for MicroPython here.
    name = "micropython"
    version = (1, 26, 1)
    _mpy = 6


def no_memory(*_):
    raise MemoryError


class NoMemory:
    # In place of the module json.
    loads = staticmethod(no_memory)


def forged(number):
    return json.dumps({"release": number}).encode() + FORGED


class Message:
    topic = "inflight/box/update/manifest"
    offset = 0

    def __init__(self, payload):
        self.payload = self.view = payload
        self.size = len(payload)


class Device(Folder):
    """A device that accepts releases of KEY. record: what it knows of earlier ones."""

    def __init__(self, record=None):
        self._record = record

    def __enter__(self):
        super().__enter__()
        self._replaced = [Replaced(slot, space=lambda place: (4096, 100))]
        if sys.implementation.name != "micropython":
            self._replaced.append(Replaced(sys, implementation=Implementation))
        for one in self._replaced:
            one.__enter__()
        self.write("config.json", json.dumps({"update_keys": [OTHER_KEY, KEY]}))
        if self._record:
            store(self.path, self._record)
        self.app = app = App(Board(self.path))
        app.board.NAME = "ram"
        app.config.buffer, app.config.timeout_ms = 1024, 10_000
        app.client.publish = self._published
        app.stopping = False
        return self

    def __exit__(self, *_):
        for one in self._replaced:
            one.__exit__()
        super().__exit__()

    def _published(self, topic, payload, qos):
        if topic.endswith("/release"):
            self.app.report(topic, json.loads(payload), False)

    @property
    def fetched(self):
        """(state, number) of the record."""
        record = load(self.path)
        return record.state, record.candidate

    def announce(self, payload):
        """Returns what was published of it: (number, state, reason)."""
        app = self.app
        told = len(app.told)
        app.update = app.update or updating.Update(app)
        app.update.received(Message(payload))
        app.update.step()
        return [(fields["release"], fields["state"], fields.get("reason", "")) for _, fields, _ in app.told[told:]]


def test_each_bit_is_covered_by_the_signature():
    modulus = a2b_base64(KEY)
    eq(announcement.is_signed(BODY.encode(), SIGNATURE, modulus), True)
    for at in range(0, len(RELEASE), 37):
        data = bytearray(RELEASE)
        data[at] ^= 1 << at % 8
        eq(announcement.is_signed(bytes(data[: -len(SIGNATURE)]), bytes(data[-len(SIGNATURE) :]), modulus), False)


def test_what_is_no_signature_and_no_key():
    modulus = a2b_base64(KEY)
    for signature in (b"", SIGNATURE[1:], b"\0" + SIGNATURE, FORGED, b"\xff" * len(SIGNATURE), modulus):
        eq(announcement.is_signed(BODY.encode(), signature, modulus), False)
    for key in (b"", modulus[1:], b"\0" + modulus, bytes(len(modulus))):
        eq(announcement.is_signed(BODY.encode(), SIGNATURE, key), False)


def test_a_key_that_is_none_does_not_hide_the_other():
    for other in ("", "*", "k" * 512, OTHER_KEY):
        with Device():
            eq(announcement.check(RELEASE, [other, KEY], "ram", 6)["release"], 7)
            raises(announcement.NotSigned, announcement.check, RELEASE, [other], "ram", 6)


def test_nobody_else_can_end_a_fetch_with_what_takes_memory_to_read():
    with Device() as device:
        device.announce(RELEASE)
        hostile = [opening * (1_600 // len(opening)) for opening in (b"[", b'{"":')]
        hostile += [b"", b"5", b"null", b"{}", b'{"release": "x"}', b'{"release": 1e400}', b"\xff" * 1_000]
        for body in hostile:
            eq(device.announce(body + FORGED), [(None, "refused", NOT_SIGNED)])
            assert device.app.update.busy
        for fails in ({"json": NoMemory}, {"is_signed": no_memory}, {"check": no_memory}):
            with Replaced(announcement, **fails):
                eq(device.announce(forged(7))[0][:2], (None, "refused"))
            assert device.app.update.busy
        eq(device.fetched, (FETCH, 7))


def test_a_forged_announcement_is_no_outcome_of_the_number_that_it_names():
    """However often it comes: it is told without a number, does not replace the last state, which is retained, and does
    not end a fetch."""
    with Device() as device:
        for _ in range(3):
            eq(device.announce(forged(7)), [(None, "refused", NOT_SIGNED)])
        eq(device.announce(RELEASE), [(7, "fetch", "")])
        eq([retained for _, _, retained in device.app.told], [False, False, False, True])
        for number in (7, 8):
            eq(device.announce(forged(number)), [(None, "refused", NOT_SIGNED)])
        slot = device.app.update._slot
        eq(device.announce(RELEASE), [])  # nor does a copy of the right one: the fetch does not begin anew
        assert device.app.update._slot is slot and device.app.update.busy
        eq(device.fetched, (FETCH, 7))


def test_nobody_takes_the_place_of_an_announcement_that_waits():
    """Forged ones come in front of it and behind it, before the device has looked at any."""
    with Device() as device:
        update = device.app.update = updating.Update(device.app)
        for payload in (forged(8), RELEASE, forged(9), b"", forged(7)):
            update.received(Message(payload))
        for _ in range(3):
            update.step()
        eq([(fields["release"], fields["state"]) for _, fields, _ in device.app.told][1], (7, "fetch"))
        for payload, told in ((b"", 0), (forged(7), 1)):
            eq(len(device.announce(payload)), told)
            eq((device.fetched, update.busy, device.app.update), ((FETCH, 7), True, update))


def test_a_fetch_goes_on_after_a_restart_whatever_the_broker_has_retained():
    """Until a start in which nobody gave anything: a sensor that sleeps would ask with each wake."""
    with Device() as device:
        device.announce(RELEASE)
        device.app.client.connected = True
        for payload in (forged(8), b""):
            device.app.update = None
            eq(device.announce(payload)[:1], [(7, "fetch", "")])
            assert device.app.update.busy
        device.write("update.offer", RELEASE[:300])  # the power was cut while it was written
        device.app.update = None
        eq(device.announce(b""), [(None, "refused", NOT_SIGNED)])
        device.app.update = None
        device.announce(RELEASE)
        device.app.update.step()
        device.app.update.close()
        assert "update.offer" not in device.names()
        eq(device.fetched, (FETCH, 7))


def test_no_older_release_takes_the_place_of_the_one_that_is_fetched():
    record = Record()
    record.fetch(8, 300)
    with Device(record) as device:
        eq(device.announce(RELEASE), [(7, "refused", "release 7 is not newer than 7")])
        eq([(fields["sha256"][:4], retained) for _, fields, retained in device.app.told], [("8ee9", False)])
        eq(device.fetched, (FETCH, 8))


def test_a_release_is_withdrawn_by_its_signer_alone_and_for_ever():
    with Device() as device:
        device.announce(RELEASE)
        eq(device.announce(WITHDRAWN[:-1] + b"x"), [(None, "refused", NOT_SIGNED)])
        eq(device.fetched, (FETCH, 7))
        for payload in (WITHDRAWN, WITHDRAWN, RELEASE):
            eq(device.announce(payload), [(7, "bad", "withdrawn")])
            eq((device.fetched, device.app.update), ((IDLE, 7), None))
    record = Record()
    record.fetch(7, 300)
    record.good()
    with Device(record) as device:  # it runs
        eq(device.announce(WITHDRAWN), [(7, "good", "")])


def test_a_release_with_an_outcome_is_answered_with_it_each_time():
    record = Record()
    record.fetch(6, 300)
    record.good()
    record.fetch(7, 300)
    record.bad()
    with Device(record) as device:
        for _ in range(2):
            eq(device.announce(forged(6)), [(6, "good", "")])
            eq(device.announce(RELEASE), [(7, "bad", "it has failed before")])
        device.write(record.other + ".reason", "no connection")
        eq(device.announce(RELEASE), [(7, "bad", "no connection")])


def test_what_a_cable_has_left_of_the_record_refuses_the_releases_before():
    record = Record()
    record.failed = 7
    with Device(record) as device:
        eq(device.announce(RELEASE), [(7, "refused", "release 7 is not newer than 7")])
    record.failed = 6
    with Device(record) as device:
        eq(device.announce(RELEASE), [(7, "fetch", "")])

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
from update_record import FETCH, Record, load, store

RUNTIMES = "cpython micropython-x86"

# Release 7 for the board "ram", as `inflight release` makes it: its key is gone.
KEY = (
    "zi6kV7ZDRKMkqoImwG/3Jyl/DugY4RgD9lEgMfH82XASOy9YvzSoaZ8dWkujGhvdP0MRvG0tkq5jQA2ZDx7DxWj+bmq5efApFHVcSm/VHVQBj/9D"
    "qAI5u9232cjFTlaTDS6VehTLltGZl8DChxeRPdyq6vh8KOB/7VYvZxJCHF0k09JqKwz6PYwxrEJP9Z+hAUphkLg0jJjvERwObG3ov4rZmQJxmRO0"
    "oAxHXzlAk1B/tlLk3emSo5uoYoh37ZRJsJ1J6Knj5HU0p8zQIdDDudFAvJ2o6es5dNmy2Dpu4bB7AovwP2auWaCZGdq8GQy2MNYbr2ooWdVtIrlD"
    "grCguEUPbdMvITDOqAYQ6D9/kVsssTRxIFIhbTtqJTmpfukfe/aeg73ezN30Tj6Ncl3dlbl7hZfgPWC2B6+BshxLhNDgWQzb5YmKZxOjxh8XO9hL"
    "PU3xpJFgfIQE2+bLPSzjPgTVmHdPcKT06DyayLpkr0qvnrKdRJJK5z0s6IER5U5t"
)
BODY = (
    '{"release":7,"board":"ram","micropython":[[1,22],[2,0]],"mpy":6,"journal":2,"index":46,"sha256":"8ee90657c8cc3'
    '38572d19400b674f99be242dcea14fafedce07cc96281043caf","blocks":1,"size":646,"trial_s":300}'
)
SIGNATURE = a2b_base64(
    "d3Bdkysj3FzS/OBMTwlzTaAF+X/QAFEnNgjFrOvasbqp4hwrEMFZfj/UT4NvHQJH+aWzDUnF1pOjB91XhbewX5M0fEPjuc7IG1erEdcEEqmg/XgV"
    "8WVjItY6q9JW+hAm4Q5slzlTW4dUCwV2AzAoUorw1pOyxeBrTmg4DBc5ehMOjPd08dMsZJQJuPgiBxR3lId7q3HLGKN2efOKIBdoLtEGNc70R5d2"
    "/jR0pfPTul98fxmSpX2Ht2FBRsWT/EPHAY/AIijNPfgzU7ki5dCJBnyxmsDT0elGsd9T5XWfk8QjK9OOJbWcr18nN6n4D9DtaDqZq1gpTgxwFURA"
    "p0pfs2ddv9j+Wep0rZc03YirpWYzyoOLGfPaPBdRHCw6JaKlsKCRMRVk4AMmHQFR2l5d2ifDFLUC+Olx3ItwEzV6hI3Q21yngEALAX/xqM+WYby3"
    "lfB0233mVbf7QXABRI5aBHyZl+Z9XvR4IU7WDQw5eU2RF0OifAdGKsQ7nNcpG/J6"
)
RELEASE = BODY.encode() + SIGNATURE
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
        app.client.publish = lambda *_: None
        app.stopping = False
        return self

    def __exit__(self, *_):
        for one in self._replaced:
            one.__exit__()
        super().__exit__()

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


# --- the signature ---


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
            eq(announcement.check(RELEASE, [other, KEY], "ram", Record())["release"], 7)
            raises(announcement.NotSigned, announcement.check, RELEASE, [other], "ram", Record())


# --- what is published ---


def test_nobody_else_can_end_a_fetch_with_what_takes_memory_to_read():
    with Device() as device:
        device.announce(RELEASE)
        for opening in (b"[", b'{"":'):
            eq(device.announce(opening * (1_600 // len(opening)) + FORGED), [(None, "refused", NOT_SIGNED)])
            assert device.app.update.busy
        for fails in ({"json": NoMemory}, {"is_signed": no_memory}):
            with Replaced(announcement, **fails):
                eq(device.announce(forged(7)), [(None, "refused", NOT_SIGNED)])
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
        assert device.app.update.busy
        eq(device.announce(RELEASE), [(7, "fetch", "")])  # whoever announces it may not know
        eq(device.fetched, (FETCH, 7))


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

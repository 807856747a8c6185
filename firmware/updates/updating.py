# Fetches a release: the announcement, what is missing of its files, the switch to it. Loaded when there is an
# announcement, and unloaded afterwards. docs/updates.md describes topics and messages.

import json
import os
import struct
import sys
from binascii import unhexlify

from files import beside, exists, kept, kept_json, write
from inflight.compat import const, ticks_add, ticks_diff, ticks_ms
from release_state import digests, told
from telemetry import describe
from update_record import FETCH, IDLE, TRIAL, load, store

sys.modules.pop("update_record")  # the launcher's: the build gives nothing of that back
_LONGEST = const(2_048)  # bytes of an announcement
_WAITING = const(3)  # announcements; those behind them are dropped
_UNIT = const(4_096)  # bytes of the blocks in an announcement
_WINDOW = const(8)  # chunks that are asked for at once
_HEADER = "<II"  # of a chunk: number of the release, offset in its image
_FRAME = const(32)  # bytes of a PUBLISH with a chunk, beside the topic as long as that of _ask() and the data
_WORK_MS = const(200)  # without running the client
_LONGEST_PAUSE_MS = const(300_000)
_PATIENCE_MS = const(2_000)  # for which a device that would sleep waits for a chunk


class Update:
    """What the device `app` does with announcements and chunks."""

    def __init__(self, app):
        self._app = app
        self._folder = beside(app.board, "")[:-1]  # of records and slots
        self._pieces = self._slot = None
        self._announced = []  # they wait for step(); the first is the one that is fetched, if there is one
        self._offer = beside(app.board, "update.offer")
        if exists(self._offer):
            self._announced.append(self._read_offer())
        self._answered = None  # whether anything came, once it was asked for
        self._number = self._sha256 = None  # of the release that is fetched
        self._untold = None  # arguments of told(), while the journal is full
        self._until = 0  # offset behind what was asked for
        self._asked_at = None
        self._topic = "%s/%s/want" % (app.config.root, app.config.device)
        self._chunk = (app.config.buffer // 2 - len(self._topic) - _FRAME) & ~31

    @property
    def busy(self):
        """True while it is worth staying awake."""
        slot = self._slot
        if not slot or not slot.waiting or self._asked_at is None:
            return True
        return ticks_diff(ticks_ms(), self._asked_at) < _PATIENCE_MS

    # --- messages: nothing that they contain ends the program ---

    def received(self, message):
        """A message, or a piece of one."""
        if self._app.stopping:
            return  # the next start comes first
        if message.topic.endswith("/manifest"):
            self._collect(message)
        elif self._slot and 8 < message.size == len(message.view):
            self._try(self._take, message.view)

    def _collect(self, message):
        # An empty one says nothing: anybody can clear what the broker has retained. None takes the place of one that
        # waits, since it may be forged.
        pieces = self._pieces if message.offset else b""
        self._pieces = None
        if not 0 < message.size <= _LONGEST or pieces is None:
            return
        pieces += message.payload
        if message.offset + len(message.view) < message.size:
            self._pieces = pieces
        elif len(self._announced) < _WAITING:
            self._announced.append(pieces)

    def _try(self, work, *args):
        try:
            work(*args)
        except Exception as e:
            # No outcome: bytes that others sent, or a full flash, say nothing about the release. Announced again, it
            # goes on.
            self._stop()
            self._report(self._number, "fetch", describe(e))
            self._end()

    def step(self):
        """Does what is due, for a limited time."""
        self._try(self._step)

    def _step(self):
        if self._untold:
            self._report(*self._untold)
        if self._announced:
            self._begin(self._announced.pop(0))
        if self._slot:
            self._advance()
        elif self._pieces is None and not self._announced:
            self._end()

    # --- the announcement ---

    def _begin(self, announced):
        record = load(self._folder)
        try:
            release = self._checked(announced, record)
        except Exception as e:  # of memory, for what anybody may have sent
            self._report(None, "refused", describe(e))
            return
        if not release:
            return  # what is being fetched goes on: anybody may have sent this one
        number = release["release"]
        if "withdrawn" in release:
            self._withdraw(number, record)
            return
        if self._slot and (number, release["sha256"]) == (self._number, self._sha256):
            self._pause_ms = self._app.config.timeout_ms  # somebody gives its parts; beginning anew would cost more
            return
        self._stop()
        self._number = number
        self._sha256 = release["sha256"]
        good_s, firmware = release["trial_s"], release["target"]
        if (record.state, record.candidate, record.good_s, record.firmware) != (FETCH, number, good_s, firmware):
            self._erase(record, firmware)
            record.fetch(number, good_s, firmware)
            store(self._folder, record)
        self._keep_offer(announced)
        self._report(number, "fetch")
        self._pause_ms = self._app.config.timeout_ms
        self._slot = self._slot_of(release, record)

    def _keep_offer(self, announced):
        # After a restart the fetch goes on, whatever others have put in the place of what the broker had retained. If
        # it is not written whole, it is not signed.
        if not exists(self._offer) or self._read_offer() != announced:
            with open(self._offer, "wb") as f:
                f.write(announced)

    def _read_offer(self):
        with open(self._offer, "rb") as f:
            return f.read()

    def _drop_offer(self):
        if exists(self._offer):
            os.remove(self._offer)

    def _withdraw(self, number, record):
        # For ever: what announced this release may be sent again by anybody.
        self._stop()
        record.state, record.candidate, record.failed = IDLE, number, number
        write(self._place(record) + ".reason", "withdrawn")
        store(self._folder, record)
        self._drop_offer()
        self._report(number, "bad", "withdrawn")

    def _erase(self, record, firmware):
        from slot import erase

        erase(self._place(record))
        if firmware:
            from firmware_slot import erase as erase_firmware

            erase_firmware(firmware)

    def _slot_of(self, release, record):
        digest = unhexlify(release["sha256"])
        if record.firmware:
            from firmware_slot import Slot as FirmwareSlot

            return FirmwareSlot(record.firmware, release["size"], digest, release["part"], release["parts"])
        from slot import Slot

        return Slot(self._place(record), release["index"], digest)

    def _place(self, record):
        return "%s/%s" % (self._folder, record.other)

    def _checked(self, announced, record):
        # What is announced, a dict; None if it is refused, or has an outcome: it is retained, so it comes again.
        from announcement import Refused, check, named

        number, digest = named(announced)
        if number and self._has_outcome(number, record):
            self._tell_again(number, record)
            return None
        # Nothing older takes the place of what is being fetched: its announcement may be sent again by anybody.
        newest = max(record.release, record.failed, record.candidate - 1 if record.state == FETCH else 0)
        try:
            release = check(announced, self._keys(record), self._app.board.NAME, newest)
            if record.state == TRIAL:
                raise Refused("started without its launcher: bring main.py, on Linux set INFLIGHT_HOME")
            if "withdrawn" not in release:
                release["target"] = self._target(release, record)
            return release
        except Refused as e:
            # Without a number unless it is signed: whoever has no key would end the rollout of that number. With its
            # digest: it may be the release of that number for other boards.
            self._report(number if e.signed else None, "refused", str(e), digest if e.signed else None)
        return None

    def _target(self, release, record):
        # Subtype of the partition where its firmware goes; 0: it is an application, for the other slot. Raises Refused.
        if "chip" not in release:
            self._make_space(release["blocks"] * _UNIT, record)
            return 0
        from announcement import Refused

        try:
            from firmware_slot import target

            return target(release)
        except ImportError:
            raise Refused("the firmware of this board comes by cable only")
        except ValueError as e:
            raise Refused(str(e))

    def _has_outcome(self, number, record):
        # Without a candidate, `failed` is what a cable has left of the releases before.
        return number == record.release or number == record.failed == record.candidate

    def _tell_again(self, number, record):
        # Whoever announces it may not know: another state has replaced it, or the broker has lost it.
        if number == record.release:
            self._report(number, "good")
            return
        self._report(number, "bad", kept(self._place(record) + ".reason") or "it has failed before")

    def _keys(self, record):
        # A release may bring others than those of the configuration.
        keys = kept_json("%s/%s.keys" % (self._folder, record.current), ())
        return keys or kept_json(self._app.board.config_path(), {})["update_keys"]

    def _keep_keys(self, record):
        # Keys that a release brought are in force until another one brings others: those of the configuration may have
        # been replaced for a reason.
        place = self._folder + "/%s.keys"
        keys = self._slot.extract("keys") or kept(place % record.current)
        if keys:
            write(place % record.other, keys)

    def _keep_digest(self, record):
        # A number alone does not tell which release it is: of the one that runs, and of the one that is tried.
        running = str(record.release)
        found = {str(self._number): self._sha256, running: digests(self._app).get(running)}
        write(beside(self._app.board, "release.json"), json.dumps(found))

    def _make_space(self, size, record):
        from announcement import Refused
        from slot import reclaim, space

        unit, blocks = space(self._place(record))
        missing = -(-size // unit) - blocks
        if missing > 0 and not (record.current and reclaim(unit, missing)):
            raise Refused("too large: it needs %d KB of flash, %d are free" % (size >> 10, blocks * unit >> 10))

    # --- the image ---

    def _advance(self):
        slot = self._slot
        end = ticks_add(ticks_ms(), _WORK_MS)
        while not (slot.waiting or slot.complete) and ticks_diff(end, ticks_ms()) > 0:
            slot.step()
        if slot.complete:
            self._switch()
        elif not self._app.client.connected:
            self._asked_at = None
        elif slot.waiting and (self._asked_at is None or self._is_overdue()):
            self._ask()

    def _is_overdue(self):
        if 0 <= ticks_diff(ticks_ms(), self._asked_at) < self._pause_ms:
            return False
        self._pause_ms = min(2 * self._pause_ms, _LONGEST_PAUSE_MS)
        return True

    def _ask(self):
        offset, size = self._slot.wanted
        size = min(size, _WINDOW * self._chunk)
        self._asked_at = ticks_ms()
        self._answered = self._answered or False
        self._until = offset + size
        wanted = {"release": self._number, "offset": offset, "bytes": size, "chunk": self._chunk}
        try:
            self._app.client.publish(self._topic, json.dumps(wanted), 0)
        except OSError:
            self._asked_at = None  # the connection is lost

    def _take(self, view):
        slot = self._slot
        release, offset = struct.unpack(_HEADER, view[:8])
        if release != self._number or not slot.take(offset, view[8:]):
            return
        self._answered = True
        self._pause_ms = self._app.config.timeout_ms
        self._asked_at = ticks_ms()
        if slot.waiting and slot.wanted[0] < self._until:
            return
        self._asked_at = None
        if not slot.waiting and not slot.complete:
            slot.step()
        if slot.waiting:
            self._ask()

    def _switch(self):
        self._slot.verify()
        record = load(self._folder)
        if not record.firmware:
            self._keep_keys(record)
        self._keep_digest(record)
        with open(self._place(record) + ".errors", "w") as f:
            f.write(json.dumps(list(self._app.errors)))  # these are not the release's
        record.begin_trial()
        store(self._folder, record)
        self._drop_offer()
        self._report(self._number, "trial")
        self._app.stopping = True
        self._slot = None
        self._end()

    def _stop(self):
        if self._slot:
            self._slot.close()
            self._slot = None

    def close(self):
        """Makes durable what has come. If nothing came, no start asks again before the release is announced again."""
        self._stop()
        if self._answered is False:
            self._drop_offer()

    # --- its end ---

    def _report(self, *state):
        # The topic is retained: a later state replaces one that is not told yet.
        self._untold = None if told(self._app, *state) else state

    def _end(self):
        if self._untold:
            return
        self._app.update = None

"""The owner of a board that updates itself: what he makes and announces, and what its board publishes of that."""

import json
import queue

from cryptography.hazmat.primitives.asymmetric import rsa

from host_tests.emulated_boards.tasks import CODE, harness
from inflight_tools.boards import slots
from inflight_tools.boards.build.bundle import compile_mpy, files
from inflight_tools.boards.device.files import RECORD, sha
from inflight_tools.boards.images.variants import variant
from inflight_tools.update import keys, release

GOOD, BROKEN, REFUSED = "good", "bad", "refused"


class Fleet:
    """The releases for one board, as its owner makes and announces them."""

    def __init__(self, sensor, port):
        self.key = rsa.generate_private_key(65537, keys.BITS)
        self._sensor, self._port = sensor, port

    def files(self, ota=False, **fields):
        """What a cable has brought: an application that accepts releases with this key. ota: to a board with space
        for a second firmware; fields: of its configuration."""
        board = self._sensor.BOARD
        often = {
            "interval_ms": 3000,
            "health_ms": 60_000,
            "qos": 2,
            "keepalive": 0,
        } | fields  # emulated boards are slow
        config = self._sensor.config(self._port, "box", update_keys=[keys.public(self.key)], **often)
        found, slot = slots.divided(files(board)) if ota else (files(board), {})
        # By this record the second release makes space for itself.
        recorded = json.dumps({path: sha(content) for path, content in found.items()}).encode()
        own = {"/main.py": (CODE / "updated.py").read_bytes(), "/config.json": config, RECORD: recorded}
        return found | slot | harness(board) | own

    def release(self, number, outcome):
        board = self._sensor.BOARD
        found = release.application(board, number)
        if outcome == BROKEN:
            found["assemble.mpy"] = compile_mpy("raise RuntimeError('a defect')", "assemble")
        return release.make(found, self.key, number, board, trial_s=20)

    def firmware(self, number, content):
        """A release of the firmware `content`, MicroPython's file for the board."""
        return release.make_firmware(variant(self._sensor.BOARD), content, self.key, number, trial_s=20)


class Outcomes:
    """What devices publish of releases."""

    def __init__(self, server):
        self._server = server
        self.told = {}  # {number: state}

    def of(self, number):
        """The outcome of a release, None before it."""
        while True:
            try:
                _, kind, fields = self._server.events.get(0)
            except queue.Empty:
                return self.told.get(number)
            if kind == "release" and fields["state"] in (GOOD, BROKEN, REFUSED):
                self.told[fields["release"]] = fields["state"]

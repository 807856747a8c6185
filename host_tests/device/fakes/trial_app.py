"""What a trial needs of an application and its board."""

import codes
from ports import Module


class Restart(Exception):
    pass


class Board:
    """`folder`: that of its configuration."""

    def __init__(self, folder, cause=codes.SOFT):
        self.folder, self.cause = folder, cause

    def config_path(self):
        return self.folder + "/config.json"

    def reset_cause(self):
        return self.cause

    def sleep(self, ms, deep=False):
        raise Restart


class Client:
    connected = False
    pending = 1

    def __init__(self):
        self.missing = []
        self.full = False  # the journal
        self.subscribed = []

    def subscribe(self, name, *_):
        self.subscribed.append(name)

    def fits(self, kind, size):
        return not self.full

    def is_pending(self, mid):
        return mid in self.missing


class App:
    """What a Trial needs of an application. Its birth message has Message ID 7."""

    def __init__(self, board, sleep_ms=0):
        self.board = board
        self.config = Module(sleep_ms=sleep_ms, watchdog_ms=0, root="inflight", device="box")
        self.client = self.journal = Client()
        self.journal.commit = self.remember = lambda: None
        self.errors = {}
        self.crash = self.update = None
        self.up = 0
        self.told = []

    def uptime(self):
        return self.up

    def report(self, topic, fields, retain):
        self.told.append((topic, fields, retain))

    def _publish_status(self, state, **more):
        return 7

    def connect(self):
        self.client.connected = True
        self.client.missing.append(7)
        self._publish_status("online")

    def acknowledge(self):
        self.client.missing.remove(7)

    def step(self):
        """Returns False if it has restarted."""
        try:
            self.update.step()
            return True
        except Restart:
            return False

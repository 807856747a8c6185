"""A radio for the set-up."""

from codes import CONNECTING, ONLINE


class Radio:
    """Each join has the next of `words` as its outcome. `key`: of the access point."""

    HTTP_PORT = 80
    BUSES = None
    NETWORKS = [("attic", -60, True)]
    memory_error = False

    def __init__(self, *words):
        self.words = list(words)
        self.joins = []
        self.key = None
        self.waits = False

    def scan(self):
        if self.memory_error:
            raise MemoryError
        return self.NETWORKS

    def open_access_point(self, name, key=None):
        self.key = key
        return "192.168.4.1"

    def join(self, ssid, key):
        self.joins.append((ssid, key))
        self.word = self.words.pop(0)
        self.waits = True

    def joined(self):
        if self.waits:
            self.waits = False
            return CONNECTING
        return self.word

    def address(self):
        return "10.0.0.7" if self.joins and self.word == ONLINE else None

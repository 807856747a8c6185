# The driver of Inflight. The drivers of the other clients have the same functions.

from raw import PAYLOAD, TOPIC

QOS = (0, 1, 2)


def load():
    """Imports what an application imports."""
    from inflight import Client, FileFlash, Journal  # noqa: F401


def journal(path):
    """The client's journal: in the file `path`, or in RAM if that is empty."""
    from inflight import FileFlash, Journal, RamFlash

    return Journal(FileFlash(path) if path else RamFlash(8, 1024))


class Contender:
    """A client connected to the broker on `port` of this machine. `buffer`: its packet buffer."""

    path = None  # of a WebSocket
    level = 4

    def __init__(self, port, name, window, nodelay, buffer, journal):
        from inflight import Client

        options = {"port": port, "path": self.path, "protocol_level": self.level, "max_inflight": window}
        self.client = Client("127.0.0.1", name, journal, buffer=buffer, keepalive=0, **options)
        self.client.connect()
        if not nodelay:
            self.client._transport.file.setsockopt(6, 1, 0)

    def round(self, qos, n, window):
        """Publishes n messages, at most `window` of them in flight, and waits until all are acknowledged."""
        client = self.client
        for _ in range(n):
            client.publish(TOPIC, PAYLOAD, qos)
            if qos and window == 1:
                client.drain(10_000)
        client.drain(10_000)

    def listen(self, qos):
        self._received = 0
        self.client.subscribe(TOPIC, qos, self._on_message)

    def _on_message(self, message):
        if message.topic and message.view:
            self._received += 1

    def receive(self, n):
        """Receives until n messages have arrived since listen(), and acknowledges them."""
        for _ in range(5000):
            if self._received >= n:
                return
            self.client.run_for(1)
        raise RuntimeError

    def close(self):
        self.client.disconnect()

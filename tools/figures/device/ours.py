# Inflight as the measurements drive it; its peers have files of the same kind beside this one.

from raw import PAYLOAD, TOPIC

QOS = (0, 1, 2)


def load():
    """Imports what an application imports."""
    from inflight import Client, FileFlash, Journal  # noqa: F401


def journal(path):
    """What the client keeps messages in: in the file `path`, or in RAM if that is empty."""
    from inflight import FileFlash, Journal, RamFlash

    return Journal(FileFlash(path) if path else RamFlash(8, 1024))


class Contender:
    """A client connected to the broker at `port` of this machine. `buffer` is what it may keep packets in."""

    def __init__(self, port, name, window, nodelay, buffer, journal):
        from inflight import Client

        self.client = Client("127.0.0.1", name, journal, port=port, max_inflight=window, buffer=buffer, keepalive=0)
        self.client.connect()
        if not nodelay:
            self.client._transport.stream.setsockopt(6, 1, 0)

    def round(self, qos, n, window):
        """Publishes n messages, at most `window` of them in flight, and waits until all are acknowledged."""
        client = self.client
        for _ in range(n):
            client.publish(TOPIC, PAYLOAD, qos)
            if qos and window == 1:
                client.drain(10_000)
        client.drain(10_000)

    def listen(self, qos):
        """Messages to TOPIC shall arrive: hear() tells how many have so far."""
        self._heard = 0
        self.client.subscribe(TOPIC, qos, self._on_message)

    def _on_message(self, message):
        if message.topic and message.view:
            self._heard += 1

    def hear(self, n):
        """Receives until n messages have arrived since listen(), acknowledged and all."""
        while self._heard < n:
            self.client.run_for(1)

    def close(self):
        self.client.disconnect()

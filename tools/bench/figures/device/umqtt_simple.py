# The driver of umqtt.simple, whose publish() waits for the PUBACK.

from raw import PAYLOAD, TOPIC

QOS = (0, 1)
_TOPIC = TOPIC.encode()


def load():
    from umqtt.simple import MQTTClient  # noqa: F401


def journal(path):
    return None


class Contender:
    def __init__(self, port, name, window, nodelay, buffer, journal):
        self.client = self._make()(name, "127.0.0.1", port)
        self.client.connect()
        if nodelay:
            self.client.sock.setsockopt(6, 1, 1)

    def _make(self):
        from umqtt.simple import MQTTClient

        return MQTTClient

    def round(self, qos, n, window):
        publish = self.client.publish
        for _ in range(n):
            publish(_TOPIC, PAYLOAD, False, qos)

    def listen(self, qos):
        self._received = 0
        self.client.set_callback(self._on_message)
        self.client.subscribe(_TOPIC, qos)

    def _on_message(self, *message):
        self._received += 1

    def receive(self, n):
        while self._received < n:
            self.client.wait_msg()

    def close(self):
        self.client.disconnect()

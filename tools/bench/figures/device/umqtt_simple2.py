# The driver of umqtt.simple2, whose publish() returns before the PUBACK. The driver waits for it.

import umqtt_simple
from raw import PAYLOAD, TOPIC

QOS = (0, 1)
_TOPIC = TOPIC.encode()


def load():
    from umqtt.simple2 import MQTTClient  # noqa: F401


journal = umqtt_simple.journal


class Contender(umqtt_simple.Contender):
    def _make(self):
        from umqtt.simple2 import MQTTClient

        return MQTTClient

    def round(self, qos, n, window):
        client = self.client
        self._waiting = 0
        client.set_callback_status(self._on_status)
        for _ in range(n):
            client.publish(_TOPIC, PAYLOAD, False, qos)
            if qos:
                self._waiting += 1
                while self._waiting >= window:
                    client.wait_msg()
        while self._waiting:
            client.wait_msg()

    def _on_status(self, mid, status):
        self._waiting -= 1

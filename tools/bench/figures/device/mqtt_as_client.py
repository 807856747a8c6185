# The driver of mqtt_as: an asyncio client that waits for each PUBACK. It needs a Wi-Fi interface and a board's id, so
# there are fakes for them.

import asyncio
import sys

from raw import PAYLOAD, TOPIC

QOS = (0, 1)


class _Wifi:
    """Always connected."""

    def __init__(self, *_):
        pass

    def active(self, *_):
        return True

    def isconnected(self):
        return True

    def status(self, *_):
        return 3

    def connect(self, *_):
        pass

    disconnect = config = connect


class _Network:
    WLAN = _Wifi
    STA_IF = AP_IF = 0
    STAT_IDLE = 0
    STAT_CONNECTING = 1
    STAT_GOT_IP = 3


class _Machine:
    unique_id = staticmethod(lambda: b"figure")  # a method of an object cannot be imported


def load():
    sys.modules["network"] = _Network()
    sys.modules["machine"] = _Machine()
    from mqtt_as import MQTTClient, config  # noqa: F401


def journal(path):
    return None


class Contender:
    options = {}

    def __init__(self, port, name, window, nodelay, buffer, journal):
        load()
        from mqtt_as import MQTTClient, config

        config.update(server="127.0.0.1", port=port, client_id=name, ssid="here", wifi_pw="", keepalive=600)
        config.update(subs_cb=self._on_message, queue_len=0, clean=True, **self.options)
        self.client = MQTTClient(config)
        self._received = 0
        self._run(self.client.connect(quick=True))
        if nodelay:
            self.client._sock.setsockopt(6, 1, 1)

    def _run(self, work):
        asyncio.get_event_loop().run_until_complete(work)

    def round(self, qos, n, window):
        self._run(self._publish(qos, n))

    async def _publish(self, qos, n):
        for _ in range(n):
            await self.client.publish(TOPIC, PAYLOAD, False, qos)

    def listen(self, qos):
        self._received = 0
        self._run(self.client.subscribe(TOPIC, qos))

    def _on_message(self, *message):
        self._received += 1

    def receive(self, n):
        self._run(self._receive(n))

    async def _receive(self, n):
        while self._received < n:
            await asyncio.sleep_ms(0)

    def close(self):
        self._run(self.client.disconnect())

"""Announces releases to devices, and gives each the parts of the image that it asks for."""

import queue
import struct
import threading
import time

from paho.mqtt.enums import MQTTErrorCode

from inflight_tools.boards.device.broker import client_of
from inflight_tools.failure import reason
from inflight_tools.payload import fields_of

KINDS = ("status", "release", "want")  # topics of a device that are listened to
_MOST = 64  # chunks for one request
_LONGEST = 16_384  # bytes of a chunk
_TIMEOUT_S = 15


class Server:
    """A connection to `broker` (a device.broker.Broker), which paho renews. `events`: a queue of (device, kind, fields)
    of messages of kind "status" and "release". Raises OSError, ValueError if the broker refuses the connection."""

    def __init__(self, broker):
        self._broker = broker
        self._offers = {}  # {device: Release}
        self.events = queue.SimpleQueue()
        self._caught_up = threading.Event()
        self._refusal = None
        client = client_of(broker, "release")
        client.on_connect = self._on_connect
        client.on_message = self._on_message
        client.on_unsubscribe = lambda *_: self._caught_up.set()
        client.max_inflight_messages_set(0)  # devices ask for as much as they can take
        self._client = client

    def __enter__(self):
        try:
            self._client.connect(self._broker.host, self._broker.port)
        except OSError as e:
            raise OSError(f"this computer does not reach the broker at {self._broker.place} ({reason(e)})") from None
        self._client.loop_start()
        if not self._caught_up.wait(_TIMEOUT_S):
            self.__exit__()
            raise ValueError(f"the broker at {self._broker.place} does not answer: {self._refusal or 'time-out'}")
        return self

    def __exit__(self, *_):
        self._client.disconnect()
        self._client.loop_stop()

    def _topic(self, device, name):
        return f"{self._broker.root}/{device}/{name}"

    def announce(self, device, release):
        """Announces a Release to a device; it stays announced, also to a device that sleeps."""
        self._offers[device] = release
        self._client.publish(self._topic(device, "update/manifest"), release.announcement, 1, retain=True)

    def withdraw(self, *devices):
        """Announces no release to devices any more. Returns when the broker knows, or after a time-out: the devices of
        which it does not know yet."""
        sent = {}
        for device in devices:
            self._offers.pop(device, None)
            sent[device] = info = self._client.publish(self._topic(device, "update/manifest"), b"", 1, retain=True)
            info.rc = MQTTErrorCode.MQTT_ERR_SUCCESS  # without a connection, too: the next one sends it
        end = time.monotonic() + _TIMEOUT_S
        for info in sent.values():
            info.wait_for_publish(max(end - time.monotonic(), 0))
        return [device for device, info in sent.items() if not info.is_published()]

    # --- paho's thread ---

    def _on_connect(self, client, userdata, flags, reason, properties):
        if reason.is_failure:
            self._refusal = str(reason)
            return
        # At QoS 0, since the broker would send only some at a time at QoS 1. What is lost, is retained.
        client.subscribe([(self._topic("+", kind), 0) for kind in KINDS])
        client.unsubscribe(f"{self._broker.root}/nothing")  # its answer comes after the retained messages

    def _on_message(self, client, userdata, message):
        device, _, kind = message.topic[len(self._broker.root) + 1 :].partition("/")
        try:
            fields = fields_of(message.payload)
        except ValueError:
            return  # not of a device
        if kind == "want":
            self._give(device, fields)
        else:
            self.events.put((device, kind, fields))

    def _give(self, device, wanted):
        release = self._offers.get(device)
        numbers = [wanted.get(name) for name in ("release", "offset", "bytes", "chunk")]
        if not release or not all(type(number) is int and number >= 0 for number in numbers):
            return
        number, offset, size, chunk = numbers
        if number != release.number or not 0 < chunk <= _LONGEST:
            return
        self.events.put((device, "want", {"share": offset / len(release.image)}))
        end = min(offset + min(size, _MOST * chunk), len(release.image))
        topic = self._topic(device, "update/chunk")
        for at in range(offset, end, chunk):
            data = struct.pack("<II", number, at) + release.image[at : min(at + chunk, end)]
            self._client.publish(topic, data, 1)

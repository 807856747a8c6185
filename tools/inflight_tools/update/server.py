"""Announces releases to devices, and gives each the parts of the image that it asks for."""

import queue
import struct
import threading
import time
from collections import Counter

from paho.mqtt.enums import MQTTErrorCode

from inflight_tools.broker import client_of
from inflight_tools.output import reason
from inflight_tools.payload import fields_of, whole

KINDS = ("status", "release", "want")  # topics of a device that are listened to
_MANIFEST = "update/manifest"
_FIELDS = ("firmware", "release", "state", "reason", "sha256", "updates", "seq", "epoch")  # of them that are read
_TEXT = 400  # characters of a text in them, more than a device writes
_LONGEST_MESSAGE = 8_192  # bytes of them
_NUMBERS = 2**32 - 1
_MOST = 64  # chunks for one request
_LONGEST = 16_384  # bytes of a chunk
_TIMEOUT_S = 15
# What waits, of one device and of all. Above it events are dropped, and so are chunks: a device asks again.
_EVENTS, _ALL_EVENTS = 64, 100_000
_CHUNKS, _ALL_CHUNKS = 256 << 10, 32 << 20  # bytes
_OF_A_CHUNK = 2_048  # bytes of Paho's for a message
_PAUSE_S = 1, 300  # before a release is announced again: the shortest, which doubles, and the longest


class _Bound:
    """Counts what waits, for each device, up to `most`, and up to `most_in_all`."""

    def __init__(self, most, most_in_all):
        self._most, self._most_in_all = most, most_in_all
        self._waiting, self._sum = Counter(), 0
        self._lock = threading.Lock()

    def add(self, device, size):
        """False if it is too much; then it is not counted."""
        with self._lock:
            if self._waiting[device] + size > self._most or self._sum + size > self._most_in_all:
                return False
            self._waiting[device] += size
            self._sum += size
            return True

    def remove(self, device, size):
        with self._lock:
            self._sum -= size
            self._waiting[device] -= size
            if not self._waiting[device]:
                del self._waiting[device]


class Events:
    """A bounded queue of (device, kind, fields): a device that floods it loses its own."""

    def __init__(self):
        self._queue = queue.SimpleQueue()
        self._bound = _Bound(_EVENTS, _ALL_EVENTS)

    def put(self, device, kind, fields):
        """False if too many wait: then it is dropped."""
        added = self._bound.add(device, 1)
        if added:
            self._queue.put((device, kind, fields))
        return added

    def get(self, timeout=None):
        """The next one. Raises queue.Empty after `timeout` seconds; None: waits."""
        event = self._queue.get(timeout=timeout)
        self._bound.remove(event[0], 1)
        return event

    def empty(self):
        return self._queue.empty()


class Server:
    """A connection to `broker` (a broker.Broker), which paho renews. `events`: Events of messages of kind
    "status" and "release", and of requests for parts, "want". refused: how many messages were none that a device
    sends, or too many. Raises OSError, ValueError if the broker refuses the connection."""

    def __init__(self, broker):
        self._broker = broker
        self._offers = {}  # {device: Release}
        self._disturbed = {}  # {device: why its release has to be announced again}
        self._pauses = {}  # {device: (when it may be announced again, the pause after that)}
        self._chunks = {}  # {Message ID: (device, bytes)} of those that the broker has not acknowledged
        self._bound = _Bound(_CHUNKS, _ALL_CHUNKS)
        self.events = Events()
        self.refused = 0
        self._caught_up = threading.Event()
        self._refusal = None
        client = client_of(broker, "release")
        client.on_connect = self._on_connect
        client.on_message = self._on_message
        client.on_publish = self._on_publish
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

    @property
    def ended(self):
        """Why nothing comes any more, if the thread that receives has ended; else None."""
        return self._client.ended and f"the connection to the broker at {self._broker.place} has {self._client.ended}"

    def announce(self, device, release):
        """Announces a Release to a device; it stays announced, also to a device that sleeps."""
        self._offers[device] = release
        self._client.publish(self._topic(device, _MANIFEST), release.announcement, 1, retain=True)

    def restore(self, now):
        """Announces releases again that another sender has replaced at the broker, or whose fetch has ended without an
        outcome, each after a pause that grows until the device asks for a part. now: seconds, of any clock that does
        not go back. Returns {device: why} of those."""
        found = {}
        for device, why in tuple(self._disturbed.items()):
            due, pause = self._pauses.get(device, (now, _PAUSE_S[0]))
            if now >= due:
                del self._disturbed[device]
                self._pauses[device] = now + pause, min(2 * pause, _PAUSE_S[1])
                if release := self._offers.get(device):
                    self.announce(device, release)
                    found[device] = why
        return found

    def withdraw(self, *devices):
        """Announces no release to devices any more. Returns when the broker knows, or after a time-out: the devices of
        which it does not know yet."""
        sent = {}
        for device in devices:
            self._offers.pop(device, None)
            sent[device] = info = self._client.publish(self._topic(device, _MANIFEST), b"", 1, retain=True)
            info.rc = MQTTErrorCode.MQTT_ERR_SUCCESS  # without a connection, too: the next one sends it
        end = time.monotonic() + _TIMEOUT_S
        for info in sent.values():
            if not self._client.ended:
                info.wait_for_publish(max(end - time.monotonic(), 0))
        return [device for device, info in sent.items() if not info.is_published()]

    # --- paho's thread ---

    def _on_connect(self, client, userdata, flags, reason, properties):
        if reason.is_failure:
            self._refusal = str(reason)
            return
        # At QoS 0, since the broker would send only some at a time at QoS 1. What is lost, is retained.
        client.subscribe([(self._topic("+", kind), 0) for kind in (*KINDS, _MANIFEST)])
        client.unsubscribe(f"{self._broker.root}/nothing")  # its answer comes after the retained messages

    def _on_message(self, client, userdata, message):
        try:
            self._take(message)
        except Exception:  # whatever a device sends, the others are served
            self.refused += 1

    def _take(self, message):
        device, _, kind = message.topic[len(self._broker.root) + 1 :].partition("/")
        if kind == _MANIFEST:
            release = self._offers.get(device)
            if release and message.payload != release.announcement:
                self._disturbed[device] = "another sender has replaced the announcement"
            return
        if len(message.payload) > _LONGEST_MESSAGE:
            raise ValueError(f"more than {_LONGEST_MESSAGE} bytes")
        fields = fields_of(message.payload)
        if kind == "want":
            self.give(device, fields)
            return
        found = {name: _short(fields[name]) for name in _FIELDS if name in fields}
        if kind == "release":
            self._look_for_disturbance(device, found)
        elif device in self._disturbed:
            self._pauses.pop(device, None)  # one that sleeps is there now
        self._tell(device, kind, found)

    def _look_for_disturbance(self, device, fields):
        # Whoever has no key can make a device say so: that what it was sent is not signed, or is damaged.
        why, states = fields.get("reason"), ("fetch",) if fields.get("release") is not None else ("fetch", "refused")
        if why and fields.get("state") in states and device in self._offers:
            self._disturbed[device] = str(why)

    def _tell(self, *event):
        if not self.events.put(*event):
            self.refused += 1

    def give(self, device, wanted):
        number = whole(wanted, "release", _NUMBERS, 1)
        offset, size = (whole(wanted, name, _NUMBERS) for name in ("offset", "bytes"))
        chunk = whole(wanted, "chunk", _LONGEST, 1)
        release = self._offers.get(device)
        if not release or number != release.number:
            return
        if offset > len(release.image):
            raise ValueError("offset is behind the end of the image")
        self._pauses.pop(device, None)
        self._tell(device, "want", {"share": offset / len(release.image)})
        end = min(offset + min(size, _MOST * chunk), len(release.image))
        topic = self._topic(device, "update/chunk")
        for at in range(offset, end, chunk):
            data = struct.pack("<II", number, at) + release.image[at : min(at + chunk, end)]
            if not self._bound.add(device, len(data) + _OF_A_CHUNK):
                return
            self._chunks[self._client.publish(topic, data, 1).mid] = device, len(data) + _OF_A_CHUNK

    def _on_publish(self, client, userdata, mid, *_):
        if mid in self._chunks:
            self._bound.remove(*self._chunks.pop(mid))


def _short(value):
    """A value of a device's message; None if it is neither a text nor a number."""
    return value[:_TEXT] if isinstance(value, str) else value if isinstance(value, (int, float)) else None

"""A device's messages at the broker of its configuration."""

import sys
import threading

from paho.mqtt.enums import MQTTErrorCode

from inflight_tools.boards.device.link import DeviceError
from inflight_tools.broker import client_of
from inflight_tools.output import reason as why_failed
from inflight_tools.payload import fields_of, whole

_ALIVE = ("online", "asleep")  # published by a device; "offline" may be the will of an earlier start
_NUMBERS = 2**32 - 1
_UNKNOWN = "Unspecified error"  # what paho says of a connection that was closed or broke


class Watch:
    """A reconnecting connection to `broker`. Messages go to on_message(device, kind, payload, retained), where kind is
    the topic below the device's; errors to on_trouble(text); if nothing comes any more, since that thread has ended,
    on_end(text) is called; all from a thread of paho's."""

    def __init__(self, broker, on_message, on_trouble=lambda text: None, on_end=lambda text: None):
        self.broker = broker
        self._on_message, self._on_trouble, self._on_end = on_message, on_trouble, on_end
        self._filters = []
        self._answered, self._connected, self._caught_up = (threading.Event() for _ in range(3))
        self._trouble = "no answer"
        client = client_of(broker, "watch")
        client.on_connect = self._on_connect
        client.on_connect_fail = lambda *_: self._say(why_failed(sys.exc_info()[1]))  # in which paho calls it
        client.on_disconnect = self._on_disconnect
        client.on_message = self._take
        client.on_unsubscribe = self._on_caught_up
        client.on_end = self._ended
        self._client = client

    def __enter__(self):
        try:
            self._client.connect(self.broker.host, self.broker.port)
        except OSError as e:  # only here paho reports the reason; it retries by itself
            self._say(why_failed(e))
            self._answered.set()
            self._client.connect_async(self.broker.host, self.broker.port)
        self._client.loop_start()
        return self

    def __exit__(self, *_):
        self._client.disconnect()
        self._client.loop_stop()

    def reach(self, seconds, advice=""):
        """Returns when the broker has accepted the connection. Raises DeviceError, with `advice`, if the first attempt
        fails."""
        self._answered.wait(seconds)
        if not self._connected.is_set():
            raise DeviceError(
                f"this computer does not reach the broker at {self.broker.place} ({self._trouble}): "
                f"--broker host:port if it is known here by another name{advice}"
            )

    def follow(self, device, kinds):
        """Subscribes to `kinds` of `device`, "+" for all."""
        self._filters = [(f"{self.broker.root}/{device}/{kind}", 0) for kind in kinds]
        self._caught_up.clear()
        if self._connected.is_set():
            self._subscribe()

    def catch_up(self, seconds):
        """Returns when the retained messages for follow() have arrived. Raises DeviceError after a time-out."""
        if not self._caught_up.wait(seconds) or self._client.ended:
            raise DeviceError(f"the broker at {self.broker.place} does not answer ({self._trouble})")

    def publish(self, topic, payload, seconds):
        """Publishes below the root at QoS 1. Raises DeviceError unless the broker acknowledges it in time."""
        sent = self._client.publish(f"{self.broker.root}/{topic}", payload, 1)
        sent.rc = MQTTErrorCode.MQTT_ERR_SUCCESS  # without a connection, too: the next one sends it
        sent.wait_for_publish(seconds)
        if not sent.is_published():
            raise DeviceError(f"the broker at {self.broker.place} does not acknowledge a command ({self._trouble})")

    def _subscribe(self):
        self._client.subscribe(self._filters)
        # Its answer comes after the retained messages.
        self._client.unsubscribe(f"{self.broker.root}/nothing")

    def _on_connect(self, client, userdata, flags, reason, properties):
        if reason.is_failure:
            self._say(str(reason))
            self._answered.set()
            return
        self._connected.set()
        self._answered.set()
        if self._filters:
            self._subscribe()

    def _on_caught_up(self, *_):
        self._say("connected")
        self._caught_up.set()

    def _on_disconnect(self, client, userdata, flags, reason, properties):
        if self._connected.is_set() and reason.is_failure:  # otherwise the reason was reported already
            self._say("the connection is lost" if str(reason) == _UNKNOWN else f"it has ended the connection: {reason}")
        self._connected.clear()

    def _say(self, trouble):
        if trouble != self._trouble:
            self._trouble = trouble
            self._on_trouble(f"broker {self.broker.place}: {trouble}")

    def _ended(self):
        text = f"the connection to the broker at {self.broker.place} has {self._client.ended}"
        self._trouble = text
        for event in (self._answered, self._caught_up):
            event.set()
        self._on_end(text)

    def _take(self, client, userdata, message):
        try:
            device, _, kind = message.topic[len(self.broker.root) + 1 :].partition("/")
            self._on_message(device, kind, message.payload, message.retain)
        except Exception as e:  # whoever sends it does not end the others' messages
            self._on_trouble(f"broker {self.broker.place}: a message that cannot be read ({type(e).__name__}: {e})")


class Births:
    """Distinguishes a new birth message from the retained one of the previous start."""

    def __init__(self):
        self._known, self._news = set(), None
        self.device = None  # whose it is
        self._new_epoch = False
        self._armed = False
        self._ended = None
        self._born = threading.Event()

    def message(self, device, kind, payload, retained):
        """For Watch(on_message=...)."""
        try:
            fields = fields_of(payload)
            key = whole(fields, "epoch", _NUMBERS), whole(fields, "seq", _NUMBERS)
        except ValueError:
            return  # the will has no number
        if not self._armed:
            self._known.add(key)
        elif fields.get("state") in _ALIVE and not fields.get("safe") and self._is_new(key):
            self._news, self.device = fields, device
            self._born.set()

    def _is_new(self, key):
        epochs = {epoch for epoch, _ in self._known}
        return key[0] not in epochs if self._new_epoch else key not in self._known

    def arm(self, new_epoch=False):
        """From now on, birth messages not seen before are new. new_epoch: other devices may send some, too; the wanted
        device has a new journal."""
        self._new_epoch = new_epoch
        self._armed = True

    def end(self, why):
        """For Watch(on_end=...)."""
        self._ended = why
        self._born.set()

    def wait(self, seconds):
        """The fields of the new birth message; None after a time-out. Raises DeviceError if none can come any more."""
        self._born.wait(seconds)
        if self._ended and not self._news:
            raise DeviceError(self._ended)
        return self._news

"""Paho's client, with bounds: nothing that a broker sends takes its memory, or ends its thread unnoticed."""

import paho.mqtt.client as paho
from paho.mqtt.enums import MessageType, MQTTErrorCode

HEAD = 2 + 65_535 + 2  # bytes of a PUBLISH of level 4 before its payload, at most: a topic and a Message ID
_AT_ONCE = 65_536  # bytes
_FRAME = 16 << 20


class BoundedClient(paho.Client):
    """Of a PUBLISH at most about `longest` bytes are in memory behind its fixed header: the others are read and
    dropped, `dropped` tells how many. Any other packet that is longer ends the connection; so does a PUBLISH where
    `may_cut` is false. Of a WebSocket Paho keeps a whole frame, so there a PUBLISH of 16 MiB is read, and a longer one
    ends the connection. Then `trouble` says why."""

    may_cut = True
    trouble = ""

    def __init__(self, *words, longest, **options):
        self.longest = longest
        super().__init__(*words, **options)

    @property
    def dropped(self):
        """Bytes at the end of the present packet that are not in memory."""
        return self._in_packet["remaining_length"] - len(self._in_packet["packet"])

    def forget(self):
        """What was published and is not acknowledged will not be sent again."""
        with self._out_message_mutex:
            self._out_messages.clear()
            self._inflight_messages = 0

    def _sock_recv(self, bufsize):
        packet = self._in_packet
        if not packet["have_remaining"] or packet["remaining_length"] <= self.longest:
            return super()._sock_recv(bufsize)
        is_cut = self.may_cut and packet["command"] & 0xF0 == MessageType.PUBLISH
        is_frame = self.transport == "websockets"
        if not is_cut or (is_frame and packet["remaining_length"] > _FRAME):
            self._refuse(packet["remaining_length"])
        if is_frame:
            return super()._sock_recv(bufsize)
        data = super()._sock_recv(min(bufsize, _AT_ONCE))
        # At least a byte: Paho takes nothing for the end of the connection.
        kept = data[: max(self.longest - len(packet["packet"]), 1)]
        packet["to_process"] -= len(data) - len(kept)
        return kept

    def _refuse(self, length):
        self.trouble = (
            f"the broker sends a packet of {length:,} bytes, which is too long: limit what devices may publish there "
            "(mosquitto: message_size_limit)"
        )
        raise OSError(self.trouble)


class ThreadClient(BoundedClient):
    """A BoundedClient for loop_start(). An error in a callback costs that call. If another one ends the thread,
    `ended` tells it, "ended (...)", and on_end() is called there."""

    ended = None

    def __init__(self, *words, **options):
        super().__init__(*words, **options)
        self.suppress_exceptions = True
        self.on_end = lambda: None

    def loop_forever(self, *words, **options):
        """As Paho's, but never raises."""
        try:
            return super().loop_forever(*words, **options)
        except Exception as e:
            self.ended = f"ended ({type(e).__name__}: {e})"
            self.on_end()
            return MQTTErrorCode.MQTT_ERR_UNKNOWN

# The errors of what a broker refused: a connection, or at level 5 a message; and of a message that was damaged.

from errno import EACCES, ECONNABORTED, ECONNREFUSED, EIO

from ..errors import printable

_REFUSALS = ("", "protocol level", "client id", "broker unavailable", "user name or password", "not authorised")
_CREDENTIALS = b"\x04\x05\x86\x87\x8a\x8c"


class ConnectRefused(OSError):
    """The broker refused the connection: `code` is the return code of its CONNACK, 1 to 5 [MQTT-3.2.2-5], at level 5
    its reason code, 0x80 or more; errno is EACCES if it is about credentials, ECONNREFUSED for the others."""

    def __init__(self, code, reason=""):
        text = _REFUSALS[code] if code < len(_REFUSALS) else _text(code, reason)
        super().__init__(EACCES if code in _CREDENTIALS else ECONNREFUSED, "connection refused: " + text)
        self.code = code


class Disconnected(OSError):
    """At level 5 the broker ended the connection: `code` is its reason code, `reason` its text, `reference` the server
    that it names instead (both "" if there is none); the client does not go there by itself."""

    def __init__(self, code, reason="", reference=""):
        super().__init__(ECONNABORTED, "the broker disconnected: " + _text(code, reason or reference))
        self.code = code
        self.reason = reason
        self.reference = reference


class PublishRefused(OSError):
    """At level 5 the broker refused a message of QoS 1 or 2, which is dropped: `code` is the reason code; mid: its
    Message ID; seq: its sequence number in the journal; reason: the broker's text, if connect_properties() asked for
    reasons."""

    def __init__(self, code, mid, seq, reason=""):
        super().__init__(EACCES, "message %d refused: %s" % (mid, _text(code, reason)))
        self.code = code
        self.reason = reason
        self.mid = mid
        self.seq = seq


class MessageDamaged(OSError):
    """Records of the journal were damaged, and with them a message of QoS 1 or 2, or perhaps several: dropped, and
    counted. mid: its Message ID; seq: its sequence number in the journal; both None if nothing tells them. records: how
    many records it is about; 0: the start found none, but the newest message may be lost."""

    def __init__(self, records, mid=None, seq=None):
        if not records:
            text = "the newest message may be lost: its record was damaged, or it was being written at a power cut"
        elif mid is None:
            text = "%d records of the journal were damaged: messages may be lost" % records
        else:
            text = "message %d was damaged in the journal and is lost (sequence number %d)" % (mid, seq)
        super().__init__(EIO, text)
        self.records = records
        self.mid = mid
        self.seq = seq


class MessageSetAside(OSError):
    """A message of QoS 1 or 2 is set aside: it is too long for the broker (`code` is 0x95), or ends the connections
    (`code` is that of its DISCONNECT at level 5, or 0). kept: it stays in the journal, and is tried again later;
    False: the full journal needed its space, and it is dropped. mid: its Message ID; seq: its sequence number in the
    journal; topic: a str; size: bytes of its packet; qos"""

    def __init__(self, code, kept, mid, seq, topic, size, qos):
        what = "set aside" if kept else "dropped, since the journal is full"
        why = ": " + _text(code, "") if code else ""
        super().__init__(EACCES, "message %d of %d bytes to %s is %s%s" % (mid, size, topic, what, why))
        self.code = code
        self.kept = kept
        self.mid = mid
        self.seq = seq
        self.topic = topic
        self.size = size
        self.qos = qos


def _text(code, reason):
    return "0x%02x %s" % (code, printable(reason)) if reason else "0x%02x" % code

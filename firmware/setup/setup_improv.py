# Improv via serial (https://www.improv-wifi.com/serial/): a computer brings Wi-Fi settings over the serial port. A
# packet is "IMPROV", version, type, length, data, checksum. No I/O.

from inflight.compat import const

_HEAD = b"IMPROV\x01"
_TYPE = const(7)  # indexes in a packet
_LENGTH = const(8)
_DATA = const(9)
_STATE = const(1)  # types
_ERROR = const(2)
_COMMAND = const(3)
_RESULT = const(4)
# Commands; 0: the packet was damaged.
INVALID = const(0)
SEND_WIFI = const(1)
REQUEST_STATE = const(2)
REQUEST_DEVICE = const(3)
REQUEST_NETWORKS = const(4)
# States.
READY = const(2)
PROVISIONING = const(3)
PROVISIONED = const(4)
# Errors.
NO_ERROR = const(0)
INVALID_PACKET = const(1)
UNKNOWN_COMMAND = const(2)
UNABLE_TO_CONNECT = const(3)
UNKNOWN_ERROR = const(255)


class Receiver:
    """Finds the commands in what comes from the serial port. Other bytes between packets are ignored."""

    def __init__(self):
        self._packet = b""

    @property
    def inside(self):
        """Whether the last byte belongs to a packet that is incomplete."""
        return len(self._packet) > 0

    def reset(self):
        self._packet = b""

    def receive(self, byte):
        """Takes a byte (int). Returns (command, its data) when a command is complete, otherwise None."""
        packet = self._packet + bytes((byte,))
        n = len(packet)
        if n <= len(_HEAD) and packet != _HEAD[:n]:
            packet = packet[-1:] if byte == _HEAD[0] else b""
        if n <= _LENGTH or n <= _DATA + packet[_LENGTH]:
            self._packet = packet
            return None
        self._packet = b""
        if sum(packet[:-1]) & 0xFF != byte:
            return INVALID, b""
        if packet[_TYPE] != _COMMAND:
            return None  # what a device sends, echoed by somebody
        data = packet[_DATA:-1]
        if len(data) < 2 or data[1] != len(data) - 2 or not data[0]:
            return INVALID, b""
        return data[0], data[2:]


def wifi_settings(data):
    """Returns (SSID, key) in the data of SEND_WIFI, the key None if it is empty. Raises ValueError."""
    n = data[0] if data else 0
    if not n or len(data) < n + 2 or len(data) != n + 2 + data[n + 1]:
        raise ValueError("wrong lengths")
    return data[1 : n + 1].decode(), data[n + 2 :].decode() or None


def _packet(kind, data):
    packet = _HEAD + bytes((kind, len(data))) + data
    return packet + bytes((sum(packet) & 0xFF, 10))  # readers expect a packet at the beginning of a line


def state(value):
    """Returns the packet with the current state."""
    return _packet(_STATE, bytes((value,)))


def error(value):
    """Returns the packet with an error, or with NO_ERROR."""
    return _packet(_ERROR, bytes((value,)))


def result(command, *texts):
    """Returns the packet with the result of a command."""
    data = b""
    for text in texts:
        text = text.encode()
        data += bytes((len(text),)) + text
    return _packet(_RESULT, bytes((command, len(data))) + data)

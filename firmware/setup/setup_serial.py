# Improv via serial (https://www.improv-wifi.com/serial/), beside the lines of the console: a computer brings Wi-Fi
# settings over the serial port. A packet is "IMPROV", version, type, length, data, checksum.

import select
import sys

from inflight.compat import const, ticks_diff, ticks_ms

_CTRL_C = const(3)
_STALE_MS = const(1_000)  # a packet that is not complete by then never will be
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
        self.packet = b""

    @property
    def inside(self):
        """Whether the last byte belongs to a packet that is incomplete."""
        return len(self.packet) > 0

    def reset(self):
        self.packet = b""

    def receive(self, byte):
        """Takes a byte (int). Returns (command, its data) when a command is complete, otherwise None."""
        packet = self.packet + bytes((byte,))
        n = len(packet)
        if n <= len(_HEAD) and packet != _HEAD[:n]:
            packet = packet[-1:] if byte == _HEAD[0] else b""
        if n <= _LENGTH or n <= _DATA + packet[_LENGTH]:
            self.packet = packet
            return None
        self.packet = b""
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


def state_packet(value):
    """Returns the packet with the current state."""
    return _packet(_STATE, bytes((value,)))


def error_packet(value):
    """Returns the packet with an error, or with NO_ERROR."""
    return _packet(_ERROR, bytes((value,)))


def result_packet(command, *texts):
    """Returns the packet with the result of a command."""
    data = b""
    for text in texts:
        text = text.encode()
        data += bytes((len(text),)) + text
    return _packet(_RESULT, bytes((command, len(data))) + data)


def _interrupt_character(character):
    # Ctrl-C is a byte of each command: the interpreter must not act on it. Serial does.
    try:
        from micropython import kbd_intr

        kbd_intr(character)
    except ImportError:
        pass  # CPython has none


class Serial:
    """Answers what comes from the serial port, for `setup`: networks() scans; bring(ssid, key, ended) tries a network
    and calls ended(error), returns False if it is busy; url() is that of the page there; information() are four texts.
    Raises KeyboardInterrupt at Ctrl-C."""

    def __init__(self, poll, setup):
        self._setup = setup
        self._receiver = Receiver()
        self._state = READY
        self._last = ticks_ms()
        self._input = getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)  # CPython's buffer would hide bytes from poll
        self._poll = select.poll()
        self._poll.register(sys.stdin, select.POLLIN)
        self._polls = (self._poll, poll)
        poll.register(sys.stdin, select.POLLIN)
        _interrupt_character(-1)

    def close(self):
        _interrupt_character(_CTRL_C)

    def step(self):
        receiver = self._receiver
        if receiver.inside and ticks_diff(ticks_ms(), self._last) > _STALE_MS:
            receiver.reset()
        while self._polls and self._poll.poll(0):
            try:
                byte = self._input.read(1)
            except OSError:
                byte = None
            if not byte:  # the end of a file, or of a terminal
                for poll in self._polls:
                    poll.unregister(sys.stdin)
                self._polls = None
                return
            self._last = ticks_ms()
            command = receiver.receive(byte[0])
            if command:
                self._execute(*command)
            elif byte[0] == _CTRL_C and not receiver.inside:
                raise KeyboardInterrupt

    def _send(self, packet):
        out = sys.stdout.buffer
        out.write(packet)
        if hasattr(out, "flush"):
            out.flush()

    def _set_state(self, state):
        self._state = state
        self._send(state_packet(state))

    def _execute(self, command, data):
        if command == INVALID:
            self._send(error_packet(INVALID_PACKET))
        elif command > REQUEST_NETWORKS:
            self._send(error_packet(UNKNOWN_COMMAND))
        else:
            self._send(error_packet(NO_ERROR))
            (self._wifi, self._tell_state, self._tell_device, self._tell_networks)[command - 1](data)

    def _wifi(self, data):
        try:
            ssid, key = wifi_settings(data)
        except ValueError:
            self._send(error_packet(INVALID_PACKET))
            return
        if not self._setup.bring(ssid, key, self._ended):
            self._send(error_packet(UNKNOWN_ERROR))
            return
        self._set_state(PROVISIONING)

    def _ended(self, error):
        if error:
            self._set_state(READY)
            self._send(error_packet(UNABLE_TO_CONNECT))
            return
        self._set_state(PROVISIONED)
        self._send(result_packet(SEND_WIFI, self._setup.url()))

    def _tell_state(self, data):
        self._set_state(self._state)
        if self._state == PROVISIONED:
            self._send(result_packet(REQUEST_STATE, self._setup.url()))

    def _tell_device(self, data):
        self._send(result_packet(REQUEST_DEVICE, *self._setup.information()))

    def _tell_networks(self, data):
        for ssid, rssi, locked in self._setup.networks():
            self._send(result_packet(REQUEST_NETWORKS, ssid, str(rssi), "YES" if locked else "NO"))
        self._send(result_packet(REQUEST_NETWORKS))

# Improv on the serial port, beside the lines of the console.

import select
import sys

import setup_improv as improv
from inflight.compat import const, ticks_diff, ticks_ms

_CTRL_C = const(3)
_STALE_MS = const(1_000)  # a packet that is not complete by then never will be


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
        self._receiver = improv.Receiver()
        self._state = improv.READY
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
        self._send(improv.state(state))

    def _execute(self, command, data):
        if command == improv.INVALID:
            self._send(improv.error(improv.INVALID_PACKET))
        elif command > improv.REQUEST_NETWORKS:
            self._send(improv.error(improv.UNKNOWN_COMMAND))
        else:
            self._send(improv.error(improv.NO_ERROR))
            (self._wifi, self._tell_state, self._tell_device, self._tell_networks)[command - 1](data)

    def _wifi(self, data):
        try:
            ssid, key = improv.wifi_settings(data)
        except ValueError:
            self._send(improv.error(improv.INVALID_PACKET))
            return
        if not self._setup.bring(ssid, key, self._ended):
            self._send(improv.error(improv.UNKNOWN_ERROR))
            return
        self._set_state(improv.PROVISIONING)

    def _ended(self, error):
        if error:
            self._set_state(improv.READY)
            self._send(improv.error(improv.UNABLE_TO_CONNECT))
            return
        self._set_state(improv.PROVISIONED)
        self._send(improv.result(improv.SEND_WIFI, self._setup.url()))

    def _tell_state(self, data):
        self._set_state(self._state)
        if self._state == improv.PROVISIONED:
            self._send(improv.result(improv.REQUEST_STATE, self._setup.url()))

    def _tell_device(self, data):
        self._send(improv.result(improv.REQUEST_DEVICE, *self._setup.information()))

    def _tell_networks(self, data):
        for ssid, rssi, locked in self._setup.networks():
            self._send(improv.result(improv.REQUEST_NETWORKS, ssid, str(rssi), "YES" if locked else "NO"))
        self._send(improv.result(improv.REQUEST_NETWORKS))

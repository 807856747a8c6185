"""Runs a code block or an example: `run_block.py PORT FILE NAME...`. Its clients connect to loopback port PORT. Each
NAME is an object that the code expects to be defined."""

import sys

import board
import hardware
import inflight
from ports import Module

PORT = int(sys.argv[1])


def at_loopback(make):
    """Wraps the client class `make`: clients connect to the broker of the test."""

    def made(host, *arguments, **options):
        assert host == "broker.example", host
        options["port"] = PORT
        return make("127.0.0.1", *arguments, **options)

    return made


class Pin(hardware.Pin):
    """A button that is pressed as soon as its handler is set."""

    OUT = 2

    def __init__(self, number, *how, **options):
        super().__init__(number, *how)
        self._level = options.get("value", 0)

    def value(self, level=None):
        if level is None:
            return self._level
        print("pin", self.number, "=", level)
        self._level = level

    def irq(self, handler, trigger):
        super().irq(handler, trigger)
        handler(self)


class PWM:
    """Prints the length of the pulses in us."""

    def __init__(self, pin):
        self.pin = pin

    def freq(self, hz):
        self._period = 1_000_000 // hz

    def duty_u16(self, duty):
        print("pin", self.pin.number, "=", round(duty * self._period / 65535), "us")


class I2C:
    """A bus with a thermometer that reads 21.5 degrees Celsius."""

    def __init__(self, scl, sda):
        self.pins = scl, sda

    def readfrom_mem(self, address, register, n):
        return b"\x15\x80"


def soon(sleep):
    """board.sleep() that takes at most 1 ms."""
    return lambda ms, deep=False: sleep(ms and 1, deep)


class Given:
    """The objects that a block may expect to be defined."""

    def flash(self):
        return inflight.RamFlash(16, 1024)

    def journal(self):
        return inflight.Journal(self.flash())

    def client(self):
        return inflight.Client("broker.example", "attic-1", self.journal())


inflight.Client = at_loopback(inflight.Client)
inflight.AsyncClient = at_loopback(inflight.AsyncClient)
board.sleep = soon(board.sleep)
sys.modules["machine"] = Module(Pin=Pin, I2C=I2C, PWM=PWM)

names = {"__name__": "__main__"}
for name in sys.argv[3:]:
    names[name] = getattr(Given(), name)()
with open(sys.argv[2]) as file:
    exec(file.read(), names)

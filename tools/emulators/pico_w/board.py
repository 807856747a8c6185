"""The emulated board: rp2040py's, with fixes."""

import asyncio
import dataclasses
import time

from rp2040py.boards import BOARDS
from rp2040py.device import MicroPythonDevice
from rp2040py.external.bootsel_button import BootselButton
from rp2040py.peripherals.peripheral import BasePeripheral
from rp2040py.simulator import Simulator

from tools.emulators.pico_w import image
from tools.emulators.pico_w.power import Power
from tools.emulators.pico_w.radio import Radio

FLASH_SIZE = 2 * 1024 * 1024  # a Pico W's; the emulator has more
_START = 0x1000_0000
_PACE_NS = 4_000_000
_STACK = slice(0x4_0000, 0x4_2000)  # in RAM, which is zeros at first
_HOST_ANSWERS_NS = 50_000  # from a byte for an idle USB endpoint to its delivery

# Two registers, where the chip has nothing, carry numbers between board and test: it costs no time and needs no USB.
_CHANNEL = 0x4007_0000
_NOTE = 0  # from the board
_TASK = 4  # to the board


class _Channel(BasePeripheral):
    """`noted` is called with each number that the board notes; task: the number that it reads."""

    task = 0

    def __init__(self, mcu, noted):
        super().__init__(mcu, "channel")
        self._noted = noted

    def read_uint32(self, offset):
        return self.task if offset == _TASK else 0

    def write_uint32(self, offset, value):
        if offset == _NOTE:
            self._noted(value)


class _Simulator(Simulator):
    """While a connection is open, emulated time does not run ahead of real time: otherwise an idle board's time-outs
    would expire before a broker on this machine could answer. in_real_time: nor at any other time."""

    in_real_time = False

    def __init__(self, rp2040, radio):
        super().__init__(rp2040=rp2040)
        self._radio = radio
        self._halt = False
        self._nap = self._last = 0.0
        self._beat = self.clock.create_alarm(self._pace)

    def _pace(self):
        now = time.monotonic()
        ahead = _PACE_NS / 1e9 - (now - self._last)
        self._last = now
        if ahead > 0.0005 and (self.in_real_time or self._radio.gateway.in_use):
            self._nap = ahead
            self.stopped = True  # ends the batch of instructions that is running
        self._beat.schedule(_PACE_NS)

    async def execute(self):
        self._halt = False
        self._last = time.monotonic()
        self._beat.schedule(_PACE_NS)
        try:
            while not self._halt:
                self.stopped = False
                self._nap = 0.0
                self._execute_batch()
                self.stopped = self._halt
                await asyncio.sleep(self._nap)
                if self._nap:
                    self._last = time.monotonic()
        except Exception as e:
            self.engine_room_error = e
            raise
        finally:
            self.stopped = True
            self._beat.cancel()

    def stop(self):
        self._halt = self.stopped = True


def _fix_usb(cdc):
    """If the board has nothing to read, the emulated USB host sends it an empty packet, 37,000 times a second. A real
    host waits, and so does this one."""
    usb = cdc.usb
    waiting = []
    read, send, reset = usb.on_endpoint_read, cdc.send_serial_byte, usb.on_reset

    def deliver():
        if waiting and cdc.tx_fifo.item_count:
            read(cdc._out_endpoint, waiting.pop())

    alarm = usb.rp2040.clock.create_alarm(deliver)

    def on_read(endpoint, size):
        if endpoint == cdc._out_endpoint and endpoint > 0 and not cdc.tx_fifo.item_count:
            waiting[:] = [size]
        else:
            read(endpoint, size)

    def on_send(byte):
        send(byte)
        if waiting:
            alarm.schedule(_HOST_ANSWERS_NS)

    def on_reset():
        waiting.clear()
        alarm.cancel()
        reset()

    usb.on_endpoint_read, cdc.send_serial_byte, usb.on_reset = on_read, on_send, on_reset


class Board(MicroPythonDevice):
    """A Pico W with `flash` in addition to its firmware: {address: bytes}; `uf2`: another image than MicroPython's
    own. radio, power: its parts. console: its output outside run(). notes: numbers that it noted; at the number
    `stop_at` it stops."""

    def __init__(self, flash=(), uf2=None):
        self.radio = Radio()
        parts = (BootselButton, lambda: self.radio)
        super().__init__(board=dataclasses.replace(BOARDS["pico_w"], extras=parts, image=uf2 or image.FIRMWARE.find()))
        self.simulator = _Simulator(self.mcu, self.radio)
        self.power = Power(self.mcu, self.simulator.stop)
        self.console = bytearray()
        self.notes = []
        self.stop_at = None
        _fix_usb(self.cdc)
        self._channel = self.mcu.peripherals[_CHANNEL >> 12] = _Channel(self.mcu, self._noted)
        self.listen()
        self.write(flash)

    def _noted(self, number):
        self.notes.append(number)
        if number == self.stop_at:
            self.stop()

    def listen(self):
        """Collects the board's output in `console`, until run()."""
        self.cdc.on_serial_data = self.console.extend

    def send(self, data):
        """Sends bytes over USB."""
        for byte in data:
            self.cdc.send_serial_byte(byte)

    def write(self, flash):
        """Writes {address: bytes} to the flash; no program may be executing from there."""
        for address, data in dict(flash).items():
            self.mcu.flash[address : address + len(data)] = data

    def snapshot(self):
        return bytes(self.mcu.flash[:FLASH_SIZE])

    def free_stack(self):
        """Bytes of the firmware's stack that were never used: neither by functions in C nor by interrupts."""
        stack = bytes(self.mcu.sram[_STACK])
        return len(stack) - len(stack.lstrip(b"\0"))

    def network_away(self):
        """The access point goes."""
        self.radio.vanish()

    def network_back(self):
        self.radio.appear()

    def give_task(self, number):
        """Sets the number that it reads."""
        self._channel.task = number

    # --- running, inside an event loop ---

    def switch_on(self):
        """Cold start: the firmware boots, and starts its application."""
        self._started = True
        self.mcu.core.pc = _START
        self.thaw()

    def thaw(self):
        """Continues after freeze(), perhaps in another process."""
        self._repl_lock = asyncio.Lock()
        self.simulator.bind_loop()
        self.simulator._execute_task = None
        self.simulator.start_execution()

    async def freeze(self):
        """Stops it between two instructions."""
        self.stop()
        task = self.simulator._execute_task
        if task:
            await asyncio.wait([task])

    async def until(self, happened, seconds, what):
        """Waits until happened() is true, and returns its result. TimeoutError with the end of the console after so
        many seconds, both of real time, which others need, and of the board's own, which passes more slowly on a busy
        machine. RuntimeError if the board stops before."""
        clock = self.mcu.clock
        end, own_end = time.monotonic() + seconds, clock.nanos + seconds * 1_000_000_000
        while True:
            found = happened()
            if found:
                return found
            task = self.simulator._execute_task
            if task and task.done():
                if happened():
                    continue
                raise RuntimeError(f"the board stopped ({self.power.cut}) before {what}:\n{self.tail()}")
            if time.monotonic() > end and clock.nanos > own_end:
                raise TimeoutError(f"not in {seconds} s: {what}; the console says:\n{self.tail()}")
            await asyncio.sleep(0.005)

    def tail(self):
        return self.console[-2000:].decode(errors="replace")

    async def run(self, code, seconds=600):
        """Executes `code` at the prompt, interrupting the running program. Returns its output; RuntimeError with the
        traceback if it raises."""
        output, error = await self.aexec(code, timeout=seconds)
        if error:
            raise RuntimeError(error.decode())
        return output.decode().replace("\r\n", "\n").strip()

"""I2C chips at the level of their registers and commands, as their data sheets describe them, on a bus whose time is
`clock`. A chip acknowledges write(data) with the number of bytes that it takes, and answers read(n); it raises Nack
where it does not acknowledge its address. `slow`: it takes that many ms longer than its data sheet allows."""

import struct
from errno import ENODEV

from hardware import Pin
from ports import Clock, Module

clock = Clock()


class Nack(Exception):
    """The chip does not acknowledge its address."""


class SoftI2C:
    """machine.SoftI2C. It knows the chips in `chips`, {address: chip}."""

    chips = {}

    def __init__(self, scl, sda):
        self.pins = (sda.number, scl.number)

    def scan(self):
        return sorted(SoftI2C.chips)

    def _chip(self, address):
        if address not in SoftI2C.chips:
            raise OSError(ENODEV)
        return SoftI2C.chips[address]

    def writeto(self, address, data):
        try:
            return self._chip(address).write(bytes(data))
        except Nack:
            raise OSError(ENODEV)

    def readfrom(self, address, n):
        try:
            answer = self._chip(address).read(n)
        except Nack:
            raise OSError(ENODEV)
        assert len(answer) == n
        return answer

    def writeto_mem(self, address, register, data):
        self.writeto(address, bytes([register]) + bytes(data))  # like MicroPython: the acknowledgements are ignored

    def readfrom_mem(self, address, register, n):
        self.writeto(address, bytes([register]))
        return self.readfrom(address, n)


machine = Module(Pin=Pin, SoftI2C=SoftI2C)


class Chip:
    slow = 0
    done = None  # when the measurement is complete

    def measure(self, ms):
        self.done = clock.now + ms + self.slow

    def measuring(self):
        return self.done is not None and clock.now < self.done


def crc8(data):
    """With the polynomial 0x31, from 0xFF on, bit by bit as in a shift register."""
    register = 0xFF
    for bit in "".join(("00000000" + bin(c)[2:])[-8:] for c in data):
        feedback = register >> 7 ^ int(bit)
        register = register << 1 & 0xFF
        if feedback:
            register ^= 0b00110001
    return register


def with_crc(*words):
    sent = b""
    for word in words:
        data = struct.pack(">H", word)
        sent += data + bytes([crc8(data)])
    return sent


class SHT(Chip):
    """`words`: what it measures. flip: the bit of its answer that the wires invert."""

    flip = None

    def __init__(self, command, ms, *words):
        self.command = command
        self.ms = ms
        self.words = words

    def write(self, data):
        if self.measuring():
            raise Nack
        if data != self.command:
            return len(data) - 1
        self.measure(self.ms)
        return len(data)

    def read(self, n):
        if self.done is None or self.measuring():
            raise Nack
        self.done = None
        return flipped(with_crc(*self.words), self.flip)


def flipped(data, bit):
    if bit is None:
        return data
    changed = bytearray(data)
    changed[bit // 8] ^= 128 >> bit % 8
    return bytes(changed)


class SCD4x(Chip):
    """Measures each 5 s when it is told so; a value can be read once."""

    flip = None

    def __init__(self, *words):
        self.words = words
        self.starts = 0
        self.answer = None
        self.answer_at = 0

    def ready(self):
        return self.done is not None and not self.measuring()

    def write(self, data):
        if clock.now < self.answer_at:
            raise Nack
        if data == b"\x21\xb1":
            if self.done is not None:
                return 0  # not while it measures
            self.starts += 1
            self.measure(5000)
            return 2
        self.answer = None
        if data == b"\xe4\xb8":
            self.answer = with_crc(0x8006 if self.ready() else 0x8000)  # 11 bits count
        elif data == b"\xec\x05":
            if not self.ready():
                return 0
            self.answer = flipped(with_crc(*self.words), self.flip)
            self.measure(5000 - (clock.now - self.done) % 5000)
        else:
            return 0
        self.answer_at = clock.now + 1
        return 2

    def read(self, n):
        if self.answer is None or clock.now < self.answer_at:
            raise Nack
        return self.answer[:n]


class BH1750(Chip):
    """It sends what it has: it has neither a checksum nor a state."""

    def __init__(self, raw):
        self.raw = raw
        self.register = 0
        self.on = False

    def write(self, data):
        for command in data:
            if command == 0x01:
                self.on = True
            elif command == 0x20 and self.on:
                self.measure(180)
                self.on = False  # by itself
        return len(data)

    def read(self, n):
        if self.done is not None and not self.measuring():
            self.register = self.raw
        return struct.pack(">H", self.register)


class INA219(Chip):
    """Registers of 16 bits. volts: of the load; millivolts: at the shunt."""

    def __init__(self, volts, millivolts):
        self.volts = volts
        self.millivolts = millivolts
        self.reset()

    def reset(self):
        self.registers = [0x399F, 0, 0, 0, 0, 0]
        self.pointer = 0

    def write(self, data):
        self.pointer = data[0]
        if len(data) == 3 and data[0] == 0:
            self.registers[0] = data[1] << 8 | data[2]
            if data[1] & 0x80:
                self.reset()
            elif data[2] & 7 == 3:  # shunt and bus, once
                self.registers[2] &= ~2
                self.measure(self.adc_ms(7) + self.adc_ms(3))
        return len(data)

    def adc_ms(self, shift):
        # The longest time of a conversion; with bit 3 it is that of 2 ** (bits 0 to 2) samples.
        adc = self.registers[0] >> shift & 15
        return (1 << (adc & 7)) * 0.586 if adc & 8 else (0.093, 0.163, 0.304, 0.586)[adc & 3]

    def read(self, n):
        if self.done is not None and not self.measuring():
            self.done = None
            range_32 = self.registers[0] >> 13 & 1
            gain = self.registers[0] >> 11 & 3
            volts = min(self.volts, 32 if range_32 else 16)
            most = 40 << gain
            self.registers[1] = round(min(max(self.millivolts, -most), most) * 100) & 0xFFFF
            self.registers[2] = round(volts * 250) << 3 | 2
        return struct.pack(">H", self.registers[self.pointer])


class Registers(Chip):
    """Registers of 8 bits; the pointer moves on with each."""

    def __init__(self):
        self.registers = bytearray(256)
        self.pointer = 0

    def write(self, data):
        self.pointer = data[0]
        for value in data[1:]:
            self.store(self.pointer, value)
            self.pointer += 1
        return len(data)

    def store(self, register, value):
        self.registers[register] = value

    def read(self, n):
        self.complete()
        self.pointer += n
        return bytes(self.registers[self.pointer - n : self.pointer])

    def complete(self):
        if self.done is not None and not self.measuring():
            self.done = None
            self.completed()


class DS3231(Registers):
    """quarters: the temperature in 0.25 degrees."""

    def __init__(self, quarters):
        super().__init__()
        self.quarters = quarters
        self.registers[0x0E] = 0x1C
        self.started = 0

    def store(self, register, value):
        self.registers[register] = value
        if register == 0x0E and value & 32:
            self.started += 1
            self.registers[0x0F] |= 4
            self.measure(200)

    def by_itself(self):
        """It begins the measurement that it makes each 64 s."""
        self.registers[0x0F] |= 4
        self.measure(200)

    def completed(self):
        self.registers[0x0E] &= ~32
        self.registers[0x0F] &= ~4
        self.registers[0x11:0x13] = struct.pack(">H", self.quarters << 6 & 0xFFFF)


class BME280(Registers):
    """raw: what it measures, temperature, pressure and humidity. h4, h5: of its calibration. wrong: {register: bits of
    its first byte that are read wrong once}. A BMP280 is one without humidity, `chip` 0x58."""

    def __init__(self, *raw, chip=0x60, h4=301, h5=50):
        super().__init__()
        self.raw = raw
        self.wrong = {}
        self.registers[0xD0] = chip
        # The example in the data sheet of the BMP280; the BME280 has the same formulas.
        calibration = 27504, 26435, -1000, 36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000
        self.registers[0x88:0xA0] = struct.pack("<HhhHhhhhhhhh", *calibration)
        self.registers[0xA1] = 75  # dig_H1, then H2 to H6
        packed = 370, 0, h4 >> 4, (h4 & 15) | (h5 & 15) << 4, h5 >> 4, 30
        self.registers[0xE1:0xE8] = struct.pack("<hBbBbb", *packed)
        self.registers[0xF7:0xFF] = bytes([0x80, 0, 0, 0x80, 0, 0, 0x80, 0])

    def store(self, register, value):
        self.registers[register] = value
        if register == 0xF4 and value & 3 == 1:  # forced: it measures once, and sleeps again
            self.registers[0xF3] = 8
            self.measure(9.3)

    def completed(self):
        self.registers[0xF3] = 0
        t, p, h = self.raw
        for i, raw in ((0xF7, p), (0xFA, t)):
            self.registers[i : i + 3] = bytes([raw >> 12, raw >> 4 & 0xFF, raw << 4 & 0xFF])
        if self.registers[0xF2] == 1:
            self.registers[0xFD:0xFF] = struct.pack(">H", h)

    def read(self, n):
        bits = self.wrong.pop(self.pointer, 0)
        data = super().read(n)
        return bytes([data[0] ^ bits]) + data[1:]


class VL53L0X(Registers):
    def __init__(self, mm, state=11):
        super().__init__()
        self.mm = mm
        self.state = state
        self.registers[0xC0:0xC3] = b"\xee\xaa\x10"
        self.registers[0x89] = 0x20

    def store(self, register, value):
        if register == 0x0B:
            if value & 1:
                self.registers[0x13] &= ~7
            return
        self.registers[register] = value
        if register == 0x00 and value & 1:
            self.measure(33)

    def completed(self):
        self.registers[0x00] = 0
        self.registers[0x14] = self.state << 3 | 1
        self.registers[0x1E:0x20] = struct.pack(">H", self.mm)
        if self.registers[0x0A] == 4:
            self.registers[0x13] |= 4

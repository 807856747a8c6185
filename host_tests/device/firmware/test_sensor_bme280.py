"""BME280 and BMP280: conversion of their values, and errors of a missing chip."""

import struct
from errno import EIO, ENODEV

from hardware import Pin, With, read
from harness import eq
from ports import Module

RUNTIMES = "cpython micropython-x86"

# The example in the data sheet of the BMP280; the BME280 has the same formulas.
CALIBRATION = (27504, 26435, -1000, 36477, -10685, 3024, 2855, 140, -7, 15500, -14600, 6000)
RAW_T = 519888
RAW_P = 415148


class SoftI2C:
    """A bus with a chip at address 118. A measurement is complete after `busy` reads of the status register."""

    chip = 0x60
    busy = 0

    def __init__(self, sda, scl):
        self.pins = (sda.number, scl.number)
        self.memory = bytearray(256)
        self.memory[0xD0] = SoftI2C.chip
        self.memory[0x88:0xA0] = struct.pack("<HhhHhhhhhhhh", *CALIBRATION)
        # dig_H1 to H6 of a chip: 75, 370, 0, 301, 50, 30
        self.memory[0xA1] = 75
        self.memory[0xE1:0xE8] = struct.pack("<hBbBbb", 370, 0, 301 >> 4, (301 & 15) | (50 & 15) << 4, 50 >> 4, 30)
        self.memory[0xF7:0xFF] = bytes([0x80, 0, 0, 0x80, 0, 0, 0x80, 0])

    def readfrom_mem(self, at, register, n):
        if at != 118 or not SoftI2C.chip:
            raise OSError(ENODEV, "ENODEV")
        if register == 0xF3 and SoftI2C.busy:
            return b"\x08"
        return bytes(self.memory[register : register + n])

    def writeto_mem(self, at, register, data):
        assert at == 118
        self.memory[register] = data[0]
        if register == 0xF4 and data[0] & 3 == 1:  # forced: it measures once, and sleeps again
            for i, raw in ((0xF7, RAW_P), (0xFA, RAW_T)):
                self.memory[i : i + 3] = bytes([raw >> 12, raw >> 4 & 0xFF, raw << 4 & 0xFF])
            if SoftI2C.chip == 0x60 and self.memory[0xF2] == 1:
                self.memory[0xFD:0xFF] = struct.pack(">H", 30281)


def bosch(chip=0x60, busy=0, bus=SoftI2C, **fields):
    fields.update({"driver": "bme280", "sda": 8, "scl": 9})
    SoftI2C.chip = chip
    SoftI2C.busy = busy
    errors = {}
    with With(machine=Module(Pin=Pin, SoftI2C=bus)):
        readings = read(errors, fields)
    return readings, errors


def test_bme280_agrees_with_the_data_sheet():
    readings, errors = bosch(name="roof")
    eq(errors, {})
    eq([name for name, _, _ in readings], ["roof-temperature", "roof-pressure", "roof-humidity"])
    eq([unit for _, unit, _ in readings], ["Cel", "Pa", "%RH"])
    temperature, pressure, humidity = [value for _, _, value in readings]
    assert abs(temperature - 25.08) < 0.005, temperature
    assert abs(pressure - 100653.27) < 0.1, pressure  # a float of 32 bits has 100653.266
    # The data sheet's formula for 32-bit integers rounds at each step.
    assert abs(humidity - whole_humidity(30281)) < 0.05, (humidity, whole_humidity(30281))


def whole_humidity(raw, h1=75, h2=370, h3=0, h4=301, h5=50, h6=30, fine=128422):
    v = fine - 76800
    a = ((raw << 14) - (h4 << 20) - h5 * v + 16384) >> 15
    b = ((((((v * h6) >> 10) * (((v * h3) >> 11) + 32768)) >> 10) + 2097152) * h2 + 8192) >> 14
    v = a * b
    v -= ((((v >> 15) * (v >> 15)) >> 7) * h1) >> 4
    return (max(0, min(v, 419430400)) >> 12) / 1024


def test_bmp280_has_no_humidity():
    readings, errors = bosch(0x58)
    eq(([name for name, _, _ in readings], errors), (["bme280-temperature", "bme280-pressure"], {}))


def test_bme280_numbers_of_twelve_bits_keep_their_sign():
    class Negative(SoftI2C):
        def __init__(self, sda, scl):
            super().__init__(sda, scl)
            self.memory[0xE4:0xE7] = b"\xff\x5e\xfd"  # dig_H4 and H5: -2, -43

        def writeto_mem(self, at, register, data):
            super().writeto_mem(at, register, data)
            self.memory[0xFD:0xFF] = struct.pack(">H", 10_000)

    readings, _ = bosch(bus=Negative, name="roof")
    value = readings[2][2]
    wanted = whole_humidity(10_000, h4=-2, h5=-43)
    assert abs(value - wanted) < 0.05, (value, wanted)


def test_missing_bme280():
    for chip, says in ((0, "no answer at address 118"), (0x55, "chip 85 at address 118")):
        readings, errors = bosch(chip)
        eq(readings, [])
        assert says in errors["bme280"], errors
    assert "no answer at address 119" in bosch(address=119)[1]["bme280"]


class Disturbed(SoftI2C):
    """It sends these numbers: temperature, pressure, humidity."""

    raw = RAW_T, RAW_P, 30281

    def writeto_mem(self, at, register, data):
        super().writeto_mem(at, register, data)
        t, p, h = Disturbed.raw
        for i, raw in ((0xF7, p), (0xFA, t)):
            self.memory[i : i + 3] = bytes([raw >> 12, raw >> 4 & 0xFF, raw << 4 & 0xFF])
        self.memory[0xFD:0xFF] = struct.pack(">H", h)


def test_bme280_values_that_are_none():
    for raw in (
        (0, 0, 0),
        (1048575, 1048575, 65535),
        (0x80000, 0x80000, 0x8000),  # nothing measured
        (0x80000, RAW_P, 30281),
        (RAW_T, 0x80000, 30281),
        (RAW_T, RAW_P, 0x8000),
        (RAW_T, RAW_P, 0),
        (RAW_T, RAW_P, 65535),
        (RAW_T, 0, 30281),
        (RAW_T, 1048575, 30281),
        (0, RAW_P, 30281),
        (300_000, RAW_P, 30281),  # -44 degrees
        (720_000, RAW_P, 30281),  # 87
        (RAW_T, 850_000, 30281),  # 266 hPa
        (RAW_T, 340_000, 30281),  # 1137
    ):
        Disturbed.raw = raw
        readings, errors = bosch(bus=Disturbed, name="roof")
        eq((readings, list(errors)), ([], ["roof"]))
        assert "check its wires" in errors["roof"], (raw, errors)
    Disturbed.raw = RAW_T, RAW_P, 30281
    eq((len(bosch(bus=Disturbed)[0]), bosch(bus=Disturbed)[1]), (3, {}))


def test_bme280_calibration_that_was_read_wrong():
    """It has no checksum: a wrong bit would make all values wrong until the next start."""

    class Once(SoftI2C):
        wrong = {}

        def readfrom_mem(self, at, register, n):
            data = bytearray(super().readfrom_mem(at, register, n))
            if register in self.wrong:
                data[0] ^= self.wrong.pop(register)
            return bytes(data)

    for register in (0x88, 0xA1, 0xE1):
        Once.wrong = {register: 4}
        readings, errors = bosch(bus=Once)
        eq(readings, [])
        assert "calibration changes" in errors["bme280"], errors
    eq(bosch(bus=Once)[1], {})


def test_bme280_that_does_not_measure():
    readings, errors = bosch(busy=1)
    eq(readings, [])
    assert "still measuring" in errors["bme280"] and str(EIO) in errors["bme280"], errors

"""The sensors that the page of the set-up offers: what models of chips on the buses show."""

import sys

import setup_sensors
from hardware import Pin, With
from harness import eq
from i2c_chips import BH1750, INA219, Registers, SoftI2C, clock, machine
from ports import Module
from test_sensors_i2c import ADDRESSES, chips

RUNTIMES = "cpython micropython-x86"

setup_sensors.sleep_ms = clock.sleep_ms


class Sensors:
    """ds18x20.DS18X20 with two sensors at 21 degrees."""

    def __init__(self, wire):
        pass

    def scan(self):
        return [bytearray([0x28, n, 2, 3, 4, 5, 6, 7]) for n in (1, 2)]

    def convert_temp(self):
        pass

    def read_scratch(self, rom):
        return bytearray([0x50, 1, 0, 0, 0x7F, 0xFF, 16, 0x10, 0])


def wire(pin):
    """onewire.OneWire of their bus."""
    return Module(crc8=lambda rom: 0)


def found(chips=None, wire=lambda pin: None, bus=lambda wire: Module(scan=list), machine=machine):
    """What is found with these chips, {address: chip}, as {name: (entry, what it measures)}."""
    SoftI2C.chips = chips or {}
    before = list(sys.modules)
    import sensor_scd4x

    sensor_scd4x.sleep_ms = clock.sleep_ms
    with With(machine=machine, onewire=Module(OneWire=wire), ds18x20=Module(DS18X20=bus)):
        result = setup_sensors.answering(8, 9, 4)
    left = [name for name in sys.modules if name not in before and name.startswith("sensor") and "scd4x" not in name]
    eq(left, [])
    if result is None:
        return None
    return {entry.get("name") or entry["driver"]: (entry, text) for entry, text in result}


BUS = {"sda": 8, "scl": 9}


def test_each_chip_is_known_by_what_it_answers():
    told = {"bh1750": "1000.0 lx", "ds3231": "21.0 Cel", "sht3x": "25.0 Cel, 37.0 %RH", "vl53l0x": "0.5 m"}
    told["scd4x"] = "500.0 ppm, 25.0 Cel, 37.0 %RH"
    for driver, chip in chips() + (("ina219", INA219(12, 50)),):
        for address in (64, 68) if driver == "ina219" else (ADDRESSES[driver],):
            result = found({address: chip})
            eq((driver, list(result)), (driver, [driver]))
            entry, measures = result[driver]
            wanted = dict(BUS, driver=driver)
            if driver not in ("ds3231", "scd4x", "vl53l0x"):
                wanted["address"] = address
            eq((entry, measures), (wanted, told.get(driver, measures)))


def test_two_chips_of_a_kind_have_names_of_their_own():
    result = found({35: BH1750(1200), 92: BH1750(600)})
    eq(sorted(result), ["bh1750", "bh1750-92"])
    eq(result["bh1750-92"][0]["address"], 92)


def test_one_wire():
    result = found(wire=wire, bus=Sensors)
    eq(result, {"ds18x20": ({"driver": "ds18x20", "pin": 4}, "21.0 Cel, 21.0 Cel")})


def test_what_does_not_measure_is_not_offered():
    eq(found(), {})
    eq(found({118: Registers(), 50: Registers()}), {})


def test_buses_that_are_held_low_are_not_searched():
    """Each address would wait."""
    Pin.level = 0
    try:
        eq(found({35: BH1750(1200)}, wire, Sensors), {})
    finally:
        Pin.level = 1


def test_a_machine_without_pins_offers_none():
    eq(found(machine=Module()), None)

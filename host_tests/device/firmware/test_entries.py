"""The entries of sensors and actuators, checked as a whole before a configuration is taken."""

import sys

import config as fields
from hardware import Pin, With
from harness import eq, raises
from ports import Module

RUNTIMES = "cpython micropython-x86"

PINS = {"driver": "w5500", "sck": 10, "mosi": 11, "miso": 12, "cs": 13, "reset": 20}
BUS = {"sda": 8, "scl": 9}


def checked(sensors=(), actuators=(), pin=None, machine=None, **more):
    from entries import check

    given = dict(more, host="h", sensors=list(sensors), actuators=list(actuators))
    with With(machine=machine or Module(Pin=Pin)):
        check(fields.check(given, "d"), pin)


def refused(*sensors, **more):
    return str(raises(ValueError, lambda: checked(sensors, **more)))


def test_right_entries_pass():
    checked(())  # what does this is unloaded by the build
    before = set(sys.modules)
    checked(
        (
            {"driver": "dht22", "pin": 4, "name": "attic"},
            dict(BUS, driver="bme280", address=118),
            dict(BUS, driver="bme280", address=119, name="roof"),
            dict(BUS, driver="scd4x"),
            {"driver": "hx711", "data": 5, "clock": 6},
            {"driver": "adc", "pin": "GP4", "scale": 3, "report_on_change": 0.5, "check_ms": 60_000},
        ),
        ({"driver": "switch", "pin": 15, "restore": "on"}, {"driver": "led", "pin": 16, "count": 8}),
    )
    checked(network=PINS)
    eq(set(sys.modules) - before, set())


def test_errors_name_the_list_the_entry_and_what_is_wrong():
    for entry, text in (
        ({"driver": "dth22", "pin": 4}, 'sensors: dth22: unknown driver "dth22": did you mean "dht22"?'),
        ({"driver": "dht22", "name": "attic", "pim": 4}, 'sensors: attic: unknown field "pim": did you mean "pin"?'),
        ({"driver": "dht22"}, 'sensors: dht22: pin is missing: write "pin": ...'),
        ({"driver": "adc", "pin": 4, "scale": "3"}, "sensors: adc: scale: write a number"),
        ({"driver": "adc", "pin": 99}, "sensors: adc: pin 99: not a pin of this board"),
        ({"driver": "adc", "pin": None}, "sensors: adc: pin None: not a pin of this board"),
        ({"driver": "dht22", "pin": 4, "restore": "on"}, 'sensors: dht22: unknown field "restore"'),
        ({"driver": "dht22", "pin": 4, "report_on_change": 0}, "sensors: dht22: report_on_change: write true, or the"),
        ({"driver": "dht22", "pin": 4, "check_ms": 100}, "sensors: dht22: check_ms needs report_on_change"),
    ):
        assert refused(entry).startswith(text), refused(entry)
    for entry, text in (
        ({"driver": "swich", "pin": 4}, 'actuators: swich: unknown driver "swich": did you mean "switch"?'),
        ({"driver": "pwm", "pin": 4, "frequ": 50}, 'actuators: pwm: unknown field "frequ": did you mean "freq"?'),
        ({"driver": "pwm", "pin": 4, "report_on_change": True}, 'actuators: pwm: unknown field "report_on_change"'),
        ({"driver": "pwm", "pin": 4, "restore": "yes"}, 'actuators: pwm: restore: write "last", "on" or "off"'),
    ):
        assert refused(actuators=[entry]).startswith(text), refused(actuators=[entry])


def test_a_pin_is_used_once():
    door = {"driver": "digital", "pin": 4, "name": "door"}
    eq(refused(door, {"driver": "dht22", "pin": 4}), "sensors: dht22: pin 4 is that of sensors: door: pin, too")
    pump = {"driver": "switch", "pin": 4, "name": "pump"}
    eq(refused(door, actuators=[pump]), "actuators: pump: pin 4 is that of sensors: door: pin, too")
    eq(refused({"driver": "adc", "pin": 12}, network=PINS), "sensors: adc: pin 12 is that of network: miso, too")
    eq(
        refused({"driver": "hx711", "data": 5, "clock": 5}),
        "sensors: hx711: pin 5 is that of sensors: hx711: data, too",
    )


def test_chips_share_a_bus_but_not_an_address():
    roof = dict(BUS, driver="bme280", name="roof")
    swapped = {"driver": "bh1750", "sda": 9, "scl": 8}
    eq(refused(roof, swapped), "sensors: bh1750: pin 9 is that of sensors: roof: scl, too")
    eq(refused(roof, {"driver": "dht22", "pin": 8}), "sensors: dht22: pin 8 is that of sensors: roof: sda, too")
    eq(refused(roof, dict(roof, name="b")), "sensors: b: the same chip as sensors: roof: give each its address")
    scd = dict(BUS, driver="scd4x")
    eq(refused(scd, dict(scd, name="b")), "sensors: b: the same chip as sensors: scd4x: give each its address")


def test_a_counter_counts_only_while_the_device_is_awake():
    rain = {"driver": "counter", "pin": 4}
    checked((rain,))
    eq(
        refused(rain, sleep_ms=60_000),
        "sensors: counter: it counts nothing while the device sleeps: leave sleep_ms out",
    )
    eq(
        refused({"driver": "digital", "pin": 4, "report_on_change": True}, sleep_ms=60_000),
        "sensors: digital: report_on_change: nobody reads it while the device sleeps: leave sleep_ms out",
    )


def test_the_pin_that_wakes_the_device():
    """A sensor may read it."""

    def no(number):
        raise ValueError("pin %d cannot wake this board" % number)

    more = {"sleep_ms": 60_000, "wake_on_pin": 4}
    door = {"driver": "digital", "pin": 4, "name": "door"}
    with With(wake_pin=Module(check=lambda number: None)):
        checked((door,), **more)
        text = refused({"driver": "dht22", "pin": 4}, **more)
        eq(text, "sensors: dht22: pin 4 is that of wake_on_pin, too")
        assert refused(network=PINS, sleep_ms=60_000, wake_on_pin=12).startswith(
            "wake_on_pin: pin 12 is that of network"
        )
        eq(refused(door, {"driver": "adc", "pin": 4}, **more), "sensors: adc: pin 4 is that of wake_on_pin, too")
    with With(wake_pin=Module(check=no)):
        eq(refused(**more), "wake_on_pin: pin 4 cannot wake this board")


def test_who_knows_the_board_says_which_pins_it_has():
    asked = []

    def pin(*of):
        asked.append(of)
        if of[0] == 5:
            raise ValueError("pin 5: not here")

    checked((dict(BUS, driver="bh1750"),), ({"driver": "switch", "pin": 99},), pin)
    eq(asked, [(8, "bh1750", "sda"), (9, "bh1750", "scl"), (99, "switch", "pin")])
    eq(refused({"driver": "adc", "pin": 5}, pin=pin), "sensors: adc: pin 5: not here")
    machine = Module()  # one without pins
    text = refused({"driver": "adc", "pin": 4}, machine=machine)
    assert text.startswith("sensors: adc: this machine has no such pins"), text

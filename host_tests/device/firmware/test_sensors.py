"""The configured sensors on fake hardware: their values, and their errors."""

from errno import ETIMEDOUT

import sensor_hx711
import telemetry
from hardware import Pin, SoftPin, With, fails, read, works
from harness import eq
from ports import Module
from sensors import Sensor

RUNTIMES = "cpython micropython-x86"

# --- entries ---


def test_an_unknown_driver_error_names_the_one_that_is_like_it_or_all():
    assert 'unknown driver "dth22": did you mean "dht22"? (or copy a module sensor_dth22' in fails({"driver": "dth22"})
    text = fails({"driver": "geiger", "pin": 4})
    assert '"geiger"' in text and "adc, bh1750, bme280, bmp280, counter" in text, text


def test_errors_name_the_invalid_field():
    with With(machine=Module(Pin=Pin)):
        assert 'write "pin": ...' in fails({"driver": "digital"})
        text = fails({"driver": "digital", "pim": 4})
        assert 'unknown field "pim": did you mean "pin"?' in text, text
        assert "invert, pin, pull" in fails({"driver": "digital", "pin": 4, "colour": 1})
        assert "pull: write a text" in fails({"driver": "digital", "pin": 4, "pull": 1})
        assert '"up" or "down"' in fails({"driver": "digital", "pin": 4, "pull": "sideways"})
        assert "invert: write true or false" in fails({"driver": "digital", "pin": 4, "invert": 1})
        for value in ("2", True, None, [2]):
            assert "scale: write a number" in fails({"driver": "counter", "pin": 4, "scale": value}), value
        assert '"falling" or "rising"' in fails({"driver": "counter", "pin": 4, "edge": "both"})


def test_errors_name_the_invalid_pin():
    with With(machine=Module(Pin=Pin)):
        for number in (99, -1, "X9", None, 1.5):
            text = fails({"driver": "digital", "pin": number})
            assert "pin %s: not a pin of this board" % number in text, text


def test_a_machine_without_pins():
    with With(machine=Module()):
        assert "no such pins" in fails({"driver": "digital", "pin": 4})


def test_missing_library_error_tells_how_to_install_it():
    with With(machine=Module(Pin=Pin), dht=None):
        assert "mpremote mip install dht" in fails({"driver": "dht22", "pin": 4})
    with With(machine=Module(Pin=Pin), onewire=Module(OneWire=list), ds18x20=None):
        assert "mpremote mip install ds18x20" in fails({"driver": "ds18x20", "pin": 4})


def test_a_failing_sensor_does_not_affect_others():
    errors = {}
    Pin.level = 1
    with With(machine=Module(Pin=Pin)):
        readings = read(
            errors,
            {"driver": "digital", "pin": 99, "name": "bad"},
            {"driver": "digital", "pin": 5, "name": "good"},
            {"driver": "nonsense", "name": "worse"},
        )
    eq(readings, [("good", None, True)])
    eq(sorted(errors), ["bad", "worse"])


# --- pins ---


def test_digital():
    Pin.made.clear()
    with With(machine=Module(Pin=Pin)):
        door = {"driver": "digital", "pin": "GP4", "name": "door", "pull": "up"}
        Pin.level = 1
        eq(works(door), [("door", None, True)])
        door["invert"] = True
        eq(works(door), [("door", None, False)])
        Pin.level = 0
        eq(works(door), [("door", None, True)])
    eq((Pin.made[0].number, Pin.made[0].how), ("GP4", (Pin.IN, Pin.PULL_UP)))


def counted(kind, pulses, **fields):
    """(value of a counter after some pulses, its pin), on a machine with this class of pins."""
    Pin.made.clear()
    fields.update({"driver": "counter", "pin": 3, "name": "rain"})
    sensor = Sensor(fields)
    errors = {}
    with With(machine=Module(Pin=kind)):
        telemetry.start([sensor])
        eq(list(telemetry.read([sensor], errors))[0][2], 0)
        for _ in range(pulses):
            Pin.made[0].handler(Pin.made[0])
        telemetry.start([sensor])
        readings = list(telemetry.read([sensor], errors))
    eq((errors, len(Pin.made)), ({}, 1))
    return readings, Pin.made[0]


def test_counter_uses_hard_interrupts_if_available():
    readings, pin = counted(Pin, 5)
    eq(readings, [("rain", "count", 5)])
    eq((pin.trigger, pin.hard), (Pin.IRQ_FALLING, True))
    readings, pin = counted(SoftPin, 4, edge="rising", scale=0.25, unit="l")
    eq(readings, [("rain", "l", 1.0)])
    eq((pin.trigger, pin.hard), (Pin.IRQ_RISING, False))


def test_counter_allocates_nothing():
    import gc

    if not hasattr(gc, "mem_alloc"):
        return  # CPython has no interrupts
    _, pin = counted(Pin, 1)
    handler = pin.handler
    gc.disable()
    before = gc.mem_alloc()
    for _ in range(100):
        handler(pin)
    after = gc.mem_alloc()
    gc.enable()
    eq(after - before, 0)


class RawADC:
    def __init__(self, pin):
        if pin.number < 26:
            raise ValueError("Pin doesn't have ADC capabilities")

    def read_u16(self):
        return 65535


class CalibratedADC(RawADC):
    ATTN_11DB = 3
    attenuation = None

    def atten(self, value):
        CalibratedADC.attenuation = value

    def read_uv(self):
        return 1_250_000


def test_adc_without_read_uv():
    with With(machine=Module(Pin=Pin, ADC=RawADC)):
        name, unit, value = works({"driver": "adc", "pin": 26})[0]
        eq((name, unit), ("adc", "V"))
        assert abs(value - 3.3) < 1e-3
        battery = {"driver": "adc", "pin": 26, "name": "battery", "scale": 3.0, "offset": -0.5, "reference": 3.0}
        assert abs(works(battery)[0][2] - 8.5) < 1e-3
        assert "pin 2: not analogue" in fails({"driver": "adc", "pin": 2})


def test_adc_with_read_uv():
    with With(machine=Module(Pin=Pin, ADC=CalibratedADC)):
        ((name, unit, value),) = works({"driver": "adc", "pin": 26, "name": "level", "unit": "%", "scale": 80})
    eq((name, unit, CalibratedADC.attenuation), ("level", "%", CalibratedADC.ATTN_11DB))
    assert abs(value - 100) < 1e-3


# --- DHT ---


class DHT22:
    plugged = True

    def __init__(self, pin):
        self.pin = pin

    def measure(self):
        if not DHT22.plugged:
            raise OSError(ETIMEDOUT, "ETIMEDOUT")

    def temperature(self):
        return 21.5

    def humidity(self):
        return 48


class DHT11(DHT22):
    def temperature(self):
        return 21


DHT = With(machine=Module(Pin=Pin), dht=Module(DHT22=DHT22, DHT11=DHT11))


def test_dht():
    with DHT:
        readings = works({"driver": "dht22", "pin": 4, "name": "attic"}, {"driver": "dht11", "pin": 5})
    eq(readings[:2], [("attic-temperature", "Cel", 21.5), ("attic-humidity", "%RH", 48)])
    eq(readings[2:], [("dht11-temperature", "Cel", 21), ("dht11-humidity", "%RH", 48)])


def test_a_sensor_plugged_in_later_appears():
    sensor = Sensor({"driver": "dht22", "pin": 4, "name": "attic"})
    errors = {}
    with DHT:
        for plugged in (False, True, False, True):
            DHT22.plugged = plugged
            telemetry.start([sensor])
            eq(len(list(telemetry.read([sensor], errors))), 2 if plugged else 0)
            eq("check the wires" in errors.get("attic", ""), not plugged)


# --- DS18x20 ---


class DS18X20:
    """A bus with these sensors, {number: degrees}; values are available after convert_temp()."""

    there = {}

    def __init__(self, wire):
        self.done = {}

    def scan(self):
        return [bytearray(b"\x28\xaa\xbb\xcc\xdd\xee%c\x00" % n) for n in sorted(DS18X20.there)]

    def convert_temp(self):
        self.done = dict(DS18X20.there)

    def read_temp(self, rom):
        if rom[6] not in self.done:
            raise Exception("CRC error")
        return self.done[rom[6]]


ONE_WIRE = With(machine=Module(Pin=Pin), onewire=Module(OneWire=lambda pin: pin), ds18x20=Module(DS18X20=DS18X20))


def test_ds18x20_measures_in_the_background():
    DS18X20.there = {1: 20.5, 2: -4.0}
    sensor = Sensor({"driver": "ds18x20", "pin": 5, "name": "tank"})
    with ONE_WIRE:
        eq(telemetry.start([sensor, lambda: ()]), 750)
        errors = {}
        readings = list(telemetry.read([sensor], errors))
    eq(readings, [("tank-aabbccddee01", "Cel", 20.5), ("tank-aabbccddee02", "Cel", -4.0)])
    eq(errors, {})


def test_error_names_a_ds18x20_that_vanishes_or_has_no_power():
    DS18X20.there = {1: 20.5, 2: -4.0}
    sensor = Sensor({"driver": "ds18x20", "pin": 5, "name": "tank"})
    errors = {}
    with ONE_WIRE:
        telemetry.start([sensor])
        DS18X20.there = {1: 85.0}
        list(telemetry.read([sensor], errors))
        eq(errors, {})
        telemetry.start([sensor])
        eq(list(telemetry.read([sensor], errors)), [])
    assert "power" in errors["tank-aabbccddee01"] and "CRC" in errors["tank-aabbccddee02"], errors


def test_ds18x20_bus_without_sensors():
    DS18X20.there = {}
    with ONE_WIRE:
        assert "no sensor on the bus" in fails({"driver": "ds18x20", "pin": 5})


# --- HX711 ---


class HX711:
    """The chip, with data at pin 6 and clock at pin 7. Each access to a pin takes `step` microseconds."""

    step = 2
    loss = None  # the pulse at which an access takes 100 us longer

    def __init__(self, value, connected=True, shorted=False):
        self.sent = value & 0xFFFFFF
        self.connected = connected
        self.shorted = shorted
        self.us = 0
        self.level = 0
        self.edge = 0
        self.irq = True
        self.on()

    def on(self):
        self.pulses = 0
        self.ready = self.us + 400_000

    def sleep_ms(self, ms):
        self.us += 1000 * ms

    def clock(self, level):
        self.us += self.step
        if level and not self.level:
            self.pulses += 1
            self.edge = self.us
            if self.pulses == self.loss:
                self.us += 100
        elif self.level and not level:
            if self.us - self.edge > 60:
                self.on()
            else:
                assert not self.irq, "an interrupt can prolong this pulse"
            if self.pulses > 24:
                self.ready = self.us + 100_000
        self.level = level

    def data(self):
        self.us += self.step
        if self.shorted:
            return 0
        if not self.connected or self.level or self.us < self.ready or self.pulses > 24:
            return 1
        return self.sent >> 24 - self.pulses & 1 if self.pulses else 0

    def measured(self, **fields):
        """(value or None, the error or None) of one reading."""
        chip = self

        class ChipPin(Pin):
            def __init__(self, number, *how, value=None):
                Pin.__init__(self, number, *how)
                if number == 6:
                    eq(how, (Pin.IN, Pin.PULL_UP))  # a loose wire is no measurement
                else:
                    chip.clock(value)

            def value(self, level=None):
                return chip.data() if self.number == 6 else chip.clock(level)

        def set_irq(state):
            before, chip.irq = chip.irq, state
            return before

        fields.update({"driver": "hx711", "data": 6, "clock": 7, "name": "scale"})
        sensor = Sensor(fields)
        errors = {}
        machine = Module(Pin=ChipPin, disable_irq=lambda: set_irq(False), enable_irq=set_irq)
        time = Module(ticks_us=lambda: chip.us, ticks_diff=lambda a, b: a - b)
        sensor_hx711.sleep_ms = self.sleep_ms
        with With(machine=machine, time=time):
            self.sleep_ms(telemetry.start([sensor]))
            readings = list(telemetry.read([sensor], errors))
        eq((self.level, self.irq), (1, True))  # off, with interrupts
        self.unit = readings[0][1] if readings else None
        return readings[0][2] if readings else None, errors.get("scale")


def test_hx711():
    for value in (0, 1, -1, 0x123456, -0x123456, 0x7FFFFE, -0x7FFFFF):
        chip = HX711(value)
        eq((chip.measured(), chip.unit), ((value, None), "count"))
    chip = HX711(184_320)
    value, error = chip.measured(offset=84_320, scale=0.00002, unit="kg")
    eq((error, chip.unit), (None, "kg"))
    assert abs(value - 2) < 1e-5


def test_hx711_faults_are_no_readings():
    for chip, says in (
        (HX711(0x7FFFFF), "beyond the range"),
        (HX711(-0x800000), "beyond the range"),
        (HX711(5, connected=False), "no answer"),
        (HX711(5, shorted=True), "data is always low"),
    ):
        value, error = chip.measured()
        assert value is None and says in error, (value, error)
    for pulse in range(1, 26):
        chip = HX711(-1)
        chip.loss = pulse
        value, error = chip.measured()
        assert value is None and "a pulse took 10" in error, (pulse, value, error)
        chip.loss = None
        eq(chip.measured(), (-1, None))

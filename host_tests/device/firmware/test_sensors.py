"""The configured sensors on fake hardware: their values, and their errors."""

import json
from binascii import unhexlify
from errno import EIO, ENOENT, ETIMEDOUT
from io import StringIO

import files as on_flash
import sensor_counter
import sensor_digital
import sensor_hx711
import telemetry
from hardware import Pin, SoftPin, With, fails, read, works
from harness import eq
from ports import Clock, Module
from scratch import Replaced
from sensors import Sensor

RUNTIMES = "cpython micropython-x86"

# --- entries ---


def test_errors_name_the_invalid_field():
    with With(machine=Module(Pin=Pin)):
        assert "debounce_ms, invert, pin, pull" in fails({"driver": "digital", "pin": 4, "colour": 1})
        assert "pull: write a text" in fails({"driver": "digital", "pin": 4, "pull": 1})
        assert '"up" or "down"' in fails({"driver": "digital", "pin": 4, "pull": "sideways"})
        assert "invert: write true or false" in fails({"driver": "digital", "pin": 4, "invert": 1})
        for value in ("2", True, None, [2]):
            assert "scale: write a number" in fails({"driver": "counter", "pin": 4, "scale": value}), value
        assert '"falling" or "rising"' in fails({"driver": "counter", "pin": 4, "edge": "both"})
        assert '"gas", "rain" or "water"' in fails({"driver": "counter", "pin": 4, "measures": "steam"})
        for driver in ("counter", "digital"):
            for ms in (-1, 1001, 2.5):
                text = fails({"driver": driver, "pin": 4, "debounce_ms": ms})
                assert "debounce_ms: write a whole number from 0 to 1000" in text, text


def test_missing_library_error_tells_how_to_install_it():
    with With(machine=Module(Pin=Pin), dht=None):
        assert "mpremote mip install dht" in fails({"driver": "dht22", "pin": 4})
    with With(machine=Module(Pin=Pin), onewire=Module(OneWire=list), ds18x20=None):
        assert "mpremote mip install ds18x20" in fails({"driver": "ds18x20", "pin": 4})


# --- values that are none ---


def own(values, ranges=None):
    """(readings, errors) of a driver of one's own that yields these (unit, value)."""

    class Driver:
        def __init__(self, fields, name):
            self.made.append(name)

        def read(self):
            for k, (unit, value) in enumerate(values):
                yield "own-%d" % k, unit, value

    Driver.made = []
    if ranges:
        Driver.READINGS = ranges
    sensor = Sensor({"driver": "own"})
    errors = {}
    with With(sensor_own=Module(FIELDS={}, Driver=Driver)):
        telemetry.start([sensor])
        broken = list(telemetry.read([sensor], errors)), dict(errors)
        values[:] = [("Cel", 20)] * len(values)
        telemetry.start([sensor])
        eq((len(list(telemetry.read([sensor], errors))), errors), (len(values), {}))  # nothing is left of it
    return broken + (len(Driver.made),)


def test_values_that_nothing_can_have():
    """Also of a driver that declares no range."""
    for value in (-40.1, 85.1, 1e9, float("nan"), float("inf"), -float("inf")):
        readings, errors, made = own([("%RH", 50), ("Cel", value)], {"-1": (-40, 85)})
        eq((readings, list(errors), made), ([], ["own"], 2))  # what came with it is not believed; it is made again
        assert "own-1" in errors["own"] and "from -40 to 85" in errors["own"], errors
    for value in (-40, 85):
        eq(own([("Cel", value)], {"-0": (-40, 85)}), ([("own-0", "Cel", value)], {}, 1))
    for unit, value in (("%RH", -0.1), ("%RH", 100.5), ("Cel", -274), ("Cel", float("nan"))):
        for ranges in (None, {"-1": (0, 5)}):
            readings, errors, _ = own([(unit, value)], ranges)
            eq((readings, list(errors)), ([], ["own"]))
    readings, errors, _ = own([("V", float("nan")), ("V", 1), ("Cel", None), (None, True), ("Cel", ValueError("odd"))])
    eq(readings, [("own-1", "V", 1), ("own-3", None, True)])
    eq(sorted(errors), ["own-0", "own-2", "own-4"])


# --- pins ---


class Level:
    """Pin.level changes at these times, in ms of `clock`: [(ms, level), ...]."""

    def __init__(self, *changes):
        self.clock = Clock()
        for ms, level in changes:
            self.clock.at(ms, self.set, level)

    def set(self, level):
        Pin.level = level

    def read(self, **fields):
        """The list of values, or the error."""
        fields.update({"driver": "digital", "pin": 4, "name": "door"})
        errors = {}
        sensor_digital.sleep_ms = self.clock.sleep_ms
        with With(machine=Module(Pin=Pin)):
            return [value for _, _, value in read(errors, fields)] or errors["door"]


def test_digital_waits_until_the_level_has_settled():
    Pin.level = 0
    for ms in (0, 1, 4, 5, 6):
        Pin.level = 1
        level = Level((ms, 0), (ms + 1, 1), (ms + 3, 0))
        before = level.clock.now
        eq(level.read(), [ms == 6])
        assert level.clock.now - before <= ms + 10
    Pin.level = 1
    bouncing = [(ms, ms % 2) for ms in range(0, 60, 3)]
    assert "does not settle" in Level(*bouncing).read()
    eq(Level(*bouncing).read(debounce_ms=0), [False])
    eq(Level(*bouncing).read(debounce_ms=20), [True])  # later, when they are over


def test_digital():
    Pin.made.clear()
    sensor_digital.sleep_ms = Clock().sleep_ms
    with With(machine=Module(Pin=Pin)):
        door = {"driver": "digital", "pin": "GP4", "name": "door", "pull": "up"}
        Pin.level = 1
        eq(works(door), [("door", None, True)])
        door["invert"] = True
        eq(works(door), [("door", None, False)])
        Pin.level = 0
        eq(works(door), [("door", None, True)])
    eq((Pin.made[0].number, Pin.made[0].how), ("GP4", (Pin.IN, Pin.PULL_UP)))


def test_counter_uses_hard_interrupts_if_available():
    for kind, pulses, fields, reading, trigger in (
        (Pin, 5, {}, ("rain", "count", 5), Pin.IRQ_FALLING),
        (SoftPin, 4, {"edge": "rising", "scale": 0.25, "unit": "l"}, ("rain", "l", 1.0), Pin.IRQ_RISING),
    ):
        meter = Meter(kind, debounce_ms=0, **fields)
        for _ in range(pulses):
            Pin.made[0].handler(Pin.made[0])
        eq((meter.readings(), len(Pin.made)), ([reading], 1))
        eq((Pin.made[0].trigger, Pin.made[0].hard), (trigger, kind is Pin))


class Meter:
    """A counter at a pin with an idle level of 1, on a clock of its own. kind: the class of pins. files: {path: text}
    of the device."""

    def __init__(self, kind=Pin, files=None, total=0, **fields):
        Pin.made.clear()
        Pin.level = fields.pop("idle", 1)
        self.clock = Clock()
        self.files = {} if files is None else files
        self.writes = 0
        self.errors = {}
        sensor_counter.ticks_ms = self.clock.ticks_ms
        sensor_counter.write = self.write
        on_flash.open = self.open
        self.fields = dict(fields, driver="counter", pin=3, name="rain")
        self.sensor = Sensor(self.fields)
        self.machine = With(machine=Module(Pin=kind), board=Module(config_path=lambda: "/config.json"))
        eq(self.total(), total)

    def open(self, path):
        if path not in self.files:
            raise OSError(ENOENT, "no such file")
        return StringIO(self.files[path])

    def write(self, path, text):
        self.writes += 1
        self.files[path] = text

    def readings(self):
        with self.machine:
            telemetry.start([self.sensor])
            return list(telemetry.read([self.sensor], self.errors))

    def pulses(self, n):
        for _ in range(n):
            self.edges(100, 100)
        self.clock.sleep_ms(10_000)

    def total(self, waited=True):
        """waited: first so long that the file may be written again."""
        if waited:
            self.clock.sleep_ms(10_000)
        return self.readings()[0][2]

    def edges(self, *times):
        """The level changes after each of these times in ms."""
        for ms in times:
            self.clock.sleep_ms(ms)
            Pin.level ^= 1
            Pin.made[0].handler(Pin.made[0])


def test_counter_goes_on_after_a_power_cut():
    """What was published is in the file: no total is lower than one before it."""
    meter = Meter(scale=0.001)
    meter.pulses(100)
    eq("%.3f" % meter.total(), "0.100")
    meter.pulses(3)
    meter = Meter(files=meter.files, scale=0.001, total=100 * 0.001)
    meter.pulses(5)
    eq("%.3f" % meter.total(), "0.105")
    meter = Meter(files=meter.files, first=1234, total=1234)  # somebody has read the meter
    meter.pulses(2)
    eq(meter.total(), 1236)
    eq(Meter(files=meter.files, first=1234, total=1236).errors, {})
    eq("%.3f" % Meter(files=meter.files, scale=0.001, total=105 * 0.001).total(), "0.105")  # a trial that was given up


def test_counter_wears_the_flash_little():
    """Only by pulses, and readings between two writes repeat the total that is in the file."""
    meter = Meter()
    totals = []
    for _ in range(60):
        meter.edges(100, 900)
        totals.append(meter.total(False))
    eq((meter.writes, totals == sorted(totals), totals[0]), (6, True, 1))
    meter.pulses(0)
    eq(meter.total(False), 60)
    for days in (7, 13):  # ticks begin again after 12 days
        meter.clock.now = (meter.clock.now + days * 86_400_000) % (1 << 30)
        meter.total(False)
        meter.pulses(1)
        meter.total(False)
    eq((meter.total(False), meter.writes), (62, 9))


def test_counter_without_space_in_the_flash():
    meter = Meter()
    """What is not in the file is not told: a restart would take it back."""
    meter.pulses(3)
    eq(meter.total(), 3)
    sensor_counter.write = lambda path, text: open("/no/such/folder", "w")
    meter.pulses(2)
    eq(meter.total(), 3)
    assert "OSError" in meter.errors["rain"] or "No such file" in meter.errors["rain"], meter.errors
    sensor_counter.write = meter.write
    meter.pulses(1)
    eq((meter.total(), meter.errors), (6, {}))


def test_counter_whose_file_is_damaged_begins_anew():
    for text in ("", '{"rain 0": x', "5", "null", '{"rain 0": "5"}', '{"rain 0": [5]}', '{"rain 0": -5}'):
        meter = Meter(files={"/counters.json": text})
        meter.pulses(2)
        eq((meter.total(), json.loads(meter.files["/counters.json"])["rain 0"]), (2, 2))
        eq("counters.json was damaged" in meter.errors.get("rain", ""), text[-1:] != "}")
        eq(Meter(files=meter.files, total=2).errors, {})


def test_counter_whose_file_cannot_be_read_does_not_replace_it():
    """It has the totals of others, too."""
    files = {"/counters.json": '{"rain 0": 7, "gas 0": 9}'}
    meter = Meter(files=files, total=7)
    broken = meter.open

    def fails(path):
        raise OSError(EIO, "flash")

    for on_flash.open in (fails, lambda path: StringIO('{"rain')):
        meter.pulses(1)
        eq((meter.total(), "rain" in meter.errors), (7, True))
    on_flash.open = broken
    eq((meter.total(), meter.errors, json.loads(files["/counters.json"])), (9, {}, {"rain 0": 9, "gas 0": 9}))
    on_flash.open = fails
    sensor = Sensor(meter.fields)
    with meter.machine:
        for readings in ([], [("rain", "count", 9)]):  # a start without the file waits for it
            telemetry.start([sensor])
            eq(list(telemetry.read([sensor], meter.errors)), readings)
            eq("rain" in meter.errors, not readings)
            on_flash.open = broken


def test_counter_s_number_of_pulses_begins_again():
    """After 2**30 of them, with CPython after 8; the total does not."""
    with Replaced(sensor_counter, _MOST=7):
        meter = Meter()
        for total in (5, 10, 15, 20):
            meter.pulses(5)
            eq((meter.total(), meter.errors), (total, {}))


def test_pulses_that_are_too_fast_are_told():
    meter = Meter()
    for _ in range(2):
        meter.edges(*[2, 3, 2, 2] * 500)  # some 225 Hz
        eq(meter.total(), 0)
        assert "pulses shorter than debounce_ms are not counted" in meter.errors["rain"], meter.errors
    meter.edges(*[20] * 400)
    eq((meter.total(), meter.errors), (200, {}))


def test_counter_counts_a_contact_that_bounces_once():
    for kind in (Pin, SoftPin):
        meter = Meter(kind)
        for n in range(1, 4):
            meter.edges(11_000, 1, 0, 1, 1)  # it closes
            eq(meter.total(False), n - 1)  # it has not lasted yet
            meter.clock.sleep_ms(5)
            eq(meter.total(False), n)
            meter.edges(100, 1, 1, 0, 2)  # it opens
            eq(meter.total(False), n)
        eq((meter.total(), len(Pin.made)), (3, 1))


def test_counter_ignores_disturbances():
    """Nothing is left of them: the next pulse is counted."""
    for idle, edge in ((1, "falling"), (0, "rising")):
        meter = Meter(idle=idle, edge=edge)
        for _ in range(50):
            meter.edges(20, 2)  # shorter than a pulse
        meter.edges(*[1] * 50)
        eq(meter.total(), 0)
        meter.edges(20, 20)
        eq(meter.total(), 1)
        meter.edges(20)
        meter.clock.sleep_ms(500)
        meter.edges(1, 1)  # within a pulse
        eq(meter.total(), 2)
    for ms in (1, 5, 50):
        meter = Meter(debounce_ms=ms)
        meter.edges(ms, ms, ms, ms)
        meter.edges(ms - 1, ms - 1, ms - 1, ms - 1)
        eq(meter.total(), 2)
    for days in (3, 7, 11, 13, 40):  # ticks begin again after 12 days
        meter = Meter()
        meter.edges(days * 86_400_000, 100)
        meter.clock.now = meter.clock.now % (1 << 30)
        eq(meter.total(), 1)


def test_counter_that_an_interrupt_comes_into():
    """Wherever read() looks at the clock: no pulse is lost, none is counted twice."""
    meter = Meter()
    meter.edges(1000)
    meter.clock.sleep_ms(5)

    def ticks_ms():
        sensor_counter.ticks_ms = meter.clock.ticks_ms
        meter.edges(10, 10, 10)  # the first ends the pulse, the others are the next one
        return meter.clock.ticks_ms()

    sensor_counter.ticks_ms = ticks_ms
    eq((meter.total(), meter.total()), (2, 2))


def test_counter_allocates_nothing():
    import gc

    if not hasattr(gc, "mem_alloc"):
        return  # CPython has no interrupts
    for ms in (0, 5):
        meter = Meter(debounce_ms=ms)
        handler = Pin.made[0].handler
        gc.disable()
        before = gc.mem_alloc()
        for _ in range(100):
            handler(Pin)
            meter.clock.now += 3
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


def test_adc():
    """With and without a method that tells microvolts."""
    with With(machine=Module(Pin=Pin, ADC=RawADC)):
        name, unit, value = works({"driver": "adc", "pin": 26})[0]
        eq((name, unit), ("adc", "V"))
        assert abs(value - 3.3) < 1e-3
        battery = {"driver": "adc", "pin": 26, "name": "battery", "scale": 3.0, "offset": -0.5, "reference": 3.0}
        assert abs(works(battery)[0][2] - 8.5) < 1e-3
        assert "pin 2: not analogue" in fails({"driver": "adc", "pin": 2})
    with With(machine=Module(Pin=Pin, ADC=CalibratedADC)):
        ((name, unit, value),) = works({"driver": "adc", "pin": 26, "name": "level", "unit": "%", "scale": 80})
    eq((name, unit, CalibratedADC.attenuation), ("level", "%", CalibratedADC.ATTN_11DB))
    assert abs(value - 100) < 1e-3


# --- DHT ---


class DHT22:
    """MicroPython's module dht: `frame` is what arrives, without the sum, which is right."""

    plugged = True
    frame = b"\x01\xe0\x00\xd7"

    def __init__(self, pin):
        self.buf = bytearray(5)

    def measure(self):
        if not DHT22.plugged:
            raise OSError(ETIMEDOUT, "ETIMEDOUT")
        self.buf[:4] = DHT22.frame
        self.buf[4] = sum(DHT22.frame) & 0xFF


DHT = With(machine=Module(Pin=Pin), dht=Module(DHT22=DHT22, DHT11=DHT22))


def dht(driver, frame):
    """([temperature, humidity], error or None) of a frame in hex; its sum is right."""
    DHT22.frame = unhexlify(frame[:8])
    errors = {}
    with DHT:
        readings = read(errors, {"driver": driver, "pin": 4, "name": "attic"})
    return [value for _, _, value in readings], errors.get("attic")


def test_dht_below_zero():
    """Some send the sign and the magnitude, some two's complement."""
    DHT22.frame = b"\x01\xe0\x00\xd7"
    with DHT:
        readings = works({"driver": "dht22", "pin": 4, "name": "attic"})
    eq(readings, [("attic-temperature", "Cel", 21.5), ("attic-humidity", "%RH", 48)])
    for frame, degrees, humidity in (
        ("02b7ffe9a1", -2.3, 69.5),
        ("0233fff72b", -0.9, 56.3),
        ("01e0807bdc", -12.3, 48),
        ("0190000091", 0, 40),
        ("01908000", 0, 40),
        ("01908190", -40, 40),
        ("0190fe70", -40, 40),
        ("01900320", 80, 40),
    ):
        eq(dht("dht22", frame), ([degrees, humidity], None))
    eq(dht("dht11", "30001504"), ([21.4, 48], None))
    eq(dht("dht11", "30000580"), ([-5, 48], None))
    eq(dht("dht11", "30050f83"), ([-15.3, 48.5], None))


def test_a_dht_configured_as_the_other_one_is_told():
    for driver, frame, other in (("dht11", "01e000d7", "dht22"), ("dht22", "30001504", "dht11")):
        values, error = dht(driver, frame)
        assert values == [] and "write " + other in error, (driver, error)
    eq(dht("dht22", "01e000d7"), ([21.5, 48], None))


def test_dht_that_has_not_measured():
    """A wire that nobody drives, or that is held low: the sum of such a frame is right. Impossible values."""
    for driver in ("dht22", "dht11"):
        for frame in ("0000000000", "fffffffffc"):
            values, error = dht(driver, frame)
            assert values == [] and "it has not measured" in error, (driver, frame, error)
    for driver, frame in (
        ("dht22", "01908191"),  # -40.1 degrees
        ("dht22", "0190fe6f"),
        ("dht22", "01900321"),  # 80.1
        ("dht22", "03e900d7"),  # 100.1 %
        ("dht11", "30003d00"),  # 61 degrees
        ("dht11", "30001580"),
        ("dht11", "65001500"),  # 101 %
    ):
        values, error = dht(driver, frame)
        assert values == [] and "check its wires" in error, (driver, frame, values)
    eq(dht("dht22", "01e000d7"), ([21.5, 48], None))  # nothing is left


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


def crc_1wire(data):
    """X^8 + X^5 + X^4 + 1, the least bit first."""
    crc = 0
    for c in data:
        for _ in range(8):
            crc, c = crc >> 1 ^ (0x8C if (crc ^ c) & 1 else 0), c >> 1
    return crc


class DS18X20:
    """A bus with these sensors, {number: degrees or scratchpad without its CRC}; values are available after
    convert_temp(). phantom: one whose number is read wrong."""

    there = {}
    family = 0x28
    phantom = False

    def __init__(self, wire):
        self.done = {}

    def rom(self, n):
        data = b"\xaa\xbb\xcc\xdd\xee%c" % n
        return bytes([DS18X20.family]) + data + bytes([crc_1wire(bytes([DS18X20.family]) + data)])

    def scan(self):
        found = [bytearray(self.rom(n)) for n in sorted(DS18X20.there)]
        if DS18X20.phantom:
            found.append(bytearray(self.rom(9)))
            found[-1][3] ^= 4
        return found

    def convert_temp(self):
        self.done = dict(DS18X20.there)

    def read_scratch(self, rom):
        if rom[6] not in self.done:
            raise Exception("CRC error")
        value = self.done[rom[6]]
        if not isinstance(value, bytes):
            raw = int(value * (2 if rom[0] == 0x10 else 16))
            value = bytes([raw & 255, raw >> 8 & 255, 75, 70, 127, 255, 12 if rom[0] == 0x10 else 16 - (raw & 15), 16])
        return bytearray(value) + bytes([crc_1wire(value)])


ONE_WIRE = Module(OneWire=lambda pin: Module(crc8=crc_1wire))
ONE_WIRE = With(machine=Module(Pin=Pin), onewire=ONE_WIRE, ds18x20=Module(DS18X20=DS18X20))


def tank(there, family=0x28):
    """(readings by number, errors by number) of these sensors."""
    DS18X20.there, DS18X20.family = there, family
    errors = {}
    with ONE_WIRE:
        readings = read(errors, {"driver": "ds18x20", "pin": 5, "name": "tank"})
    return {int(n[-2:]): v for n, _, v in readings}, {int(n[-2:]): errors[n] for n in errors}


def test_error_names_a_ds18x20_that_vanishes_or_has_no_power():
    DS18X20.there = {1: 20.5, 2: -4.0}
    sensor = Sensor({"driver": "ds18x20", "pin": 5, "name": "tank"})
    errors = {}
    with ONE_WIRE:
        eq(telemetry.start([sensor, lambda: ()]), 750)
        names = [name for name, _, _ in telemetry.read([sensor], errors)]
        eq((names, errors), (["tank-aabbccddee01", "tank-aabbccddee02"], {}))
        with Replaced(DS18X20, phantom=True):  # a number that was read wrong: no error about it stays for ever
            telemetry.start([sensor])
            eq((len(list(telemetry.read([sensor], errors))), errors), (2, {}))
        telemetry.start([sensor])
        DS18X20.there = {1: unhexlify("50054b467fff0c10")}
        list(telemetry.read([sensor], errors))
        eq(errors, {})
        telemetry.start([sensor])
        eq(list(telemetry.read([sensor], errors)), [])
    assert "power" in errors["tank-aabbccddee01"] and "CRC" in errors["tank-aabbccddee02"], errors
    DS18X20.there = {}
    with ONE_WIRE:
        assert "no sensor on the bus" in fails({"driver": "ds18x20", "pin": 5})


def test_ds18x20_values():
    """Examples of the data sheets."""
    for raw, degrees in (("d007", 125), ("9101", 25.0625), ("0800", 0.5), ("0000", 0), ("f8ff", -0.5), ("90fc", -55)):
        eq(tank({1: unhexlify(raw + "4b467fff0810")}), ({1: degrees}, {}))
    eq(tank({1: 85}), ({1: 85}, {}))  # measured
    for raw, degrees in (("a800", 84), ("3200", 25), ("0100", 0), ("ffff", -1), ("ceff", -25), ("92ff", -55)):
        for left in (1, 12, 16):
            if degrees - left / 16 + 0.75 >= -55:
                scratchpad = unhexlify(raw + "4b46ffff") + bytes([left, 16])
                eq(tank({1: scratchpad}, 0x10), ({1: degrees - left / 16 + 0.75}, {}))


def test_ds18x20_that_has_not_measured():
    """Each with a right CRC; others on the bus are read."""
    for family in (0x28, 0x10):
        for scratchpad in (
            "0000000000000000",  # the wire is held low
            "50054b467fff0c10" if family == 0x28 else "aa004b46ffff0c10",  # as after power on
            "d1074b467fff0f10" if family == 0x28 else "00014b46ffff1010",  # 125.0625 degrees, 127.75
            "8ffc4b467fff0110" if family == 0x28 else "90ff4b46ffff1010",  # -55.0625, -56.25
        ):
            values, errors = tank({1: unhexlify(scratchpad), 2: 20}, family)
            assert sorted(values) == [2] and list(errors) == [1], (scratchpad, values, errors)
            assert "check its" in errors[1], errors


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

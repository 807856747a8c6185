"""The drivers of I2C sensors against models of their chips: values, and for each fault an error instead of a value."""

import sensor_scd4x
import telemetry
from hardware import With, fails
from harness import eq
from i2c_chips import BH1750, BME280, DS3231, INA219, SHT, VL53L0X, Chip, Registers, SCD4x, SoftI2C, clock, machine
from sensors import Sensor

RUNTIMES = "cpython micropython-x86"

sensor_scd4x.sleep_ms = clock.sleep_ms
SHT3X = b"\x24\x00", 15.5
SHT4X = b"\xfd", 8.3
RAW = 519888, 415148, 30281  # of a BME280
ADDRESSES = {"bh1750": 35, "bme280": 118, "ds3231": 104, "ina219": 64, "scd4x": 98}
ADDRESSES.update({"sht3x": 68, "sht4x": 68, "vl53l0x": 41})


class Bench:
    """The sensor of a driver, on a bus with this chip."""

    def __init__(self, driver, chip, **fields):
        self.plug(chip, fields.get("address", ADDRESSES[driver]))
        fields.update({"driver": driver, "sda": 8, "scl": 9})
        self.sensor = Sensor(fields)
        self.errors = {}

    def plug(self, chip, address):
        SoftI2C.chips = {} if chip is None else {address: chip}

    def read(self, wait=True):
        """{name without the driver: value}; `units` has the units. wait: for as long as start() says."""
        with With(machine=machine):
            ms = telemetry.start([self.sensor])
            if wait:
                clock.sleep_ms(ms)
            readings = list(telemetry.read([self.sensor], self.errors))
        self.units = [unit for _, unit, _ in readings]
        return {name[len(self.sensor.__name__) :]: value for name, _, value in readings}

    def value(self):
        """The only reading's."""
        readings = self.read()
        eq((list(readings), self.errors), ([""], {}))
        return readings[""]

    def error(self, wait=True, of=""):
        """The only error; there are no readings then."""
        eq(self.read(wait), {})
        eq(list(self.errors), [self.sensor.__name__ + of])
        return self.errors[self.sensor.__name__ + of]


def close(a, b):
    assert abs(a - b) <= 1e-5 * max(1, abs(b)), (a, b)


def chips():
    """(driver, a chip that works) of each driver."""
    return (
        ("bh1750", BH1750(1200)),
        ("bme280", BME280(*RAW)),
        ("ds3231", DS3231(84)),
        ("ina219", INA219(12, 50)),
        ("scd4x", SCD4x(500, 0x6667, 0x5EB9)),
        ("sht3x", SHT(*SHT3X, 0x6667, 0x5EB9)),
        ("sht4x", SHT(*SHT4X, 0x6667, 0x5EB9)),
        ("vl53l0x", VL53L0X(500)),
    )


# --- what is the same with all ---


def test_no_chip_and_one_that_is_plugged_in_later():
    """And vanishes, also while it measures."""
    for driver, chip in chips():
        bench = Bench(driver, None)
        assert "no answer at address %d: check the wires" % ADDRESSES[driver] in bench.error(), driver
        for _ in range(2):
            bench.plug(chip, ADDRESSES[driver])
            assert bench.read() and not bench.errors, (driver, bench.errors)
            bench.plug(None, 0)
            assert "no answer" in bench.error(), driver
        bench.plug(chip, ADDRESSES[driver])
        bench.read()
        with With(machine=machine):
            clock.sleep_ms(telemetry.start([bench.sensor]))
            bench.plug(None, 0)
            eq(list(telemetry.read([bench.sensor], bench.errors)), [])
        assert "no answer" in bench.errors[driver], driver


def test_a_measurement_that_is_not_complete_is_no_reading():
    for driver, chip in chips():
        if driver == "bh1750":
            continue  # it does not tell: see test_bh1750_values
        chip.slow = 10_000
        bench = Bench(driver, chip)
        for wait in (False, True):
            text = bench.error(wait)
            assert "still measuring" in text or "no answer" in text, (driver, text)


class Other(Registers):
    """Another chip: it takes everything, and has zeros or ones in its registers."""

    def __init__(self, content):
        super().__init__()
        self.content = content

    def read(self, n):
        return self.content * n


def test_another_chip_at_the_address():
    for driver, chip in chips():
        if driver == "bh1750":
            continue  # every answer is a brightness
        for content in (b"\x00", b"\xff"):
            text = Bench(driver, Other(content)).error()
            assert "is not a" in text or "checksum" in text or "still measuring" in text, (driver, content, text)


class Deaf(Chip):
    """It acknowledges its address, and no command."""

    def write(self, data):
        return 0


def test_a_chip_that_refuses_commands():
    for driver in ("bh1750", "scd4x", "sht3x", "sht4x"):
        assert "refuses a command" in Bench(driver, Deaf()).error(), driver


def test_addresses():
    for driver, address in (("bh1750", 92), ("bme280", 119), ("ina219", 79), ("sht3x", 69), ("sht4x", 70)):
        chip = dict(chips())[driver]
        assert Bench(driver, chip, address=address).read(), driver
        for wrong in (0, 34, 128, -1, 68.5):
            text = Bench(driver, chip, address=wrong).error()
            assert "address: use one of %d, " % ADDRESSES[driver] in text, (driver, text)
        with With(machine=machine):
            assert "address: write a number" in fails({"driver": driver, "sda": 8, "scl": 9, "address": "0x44"})


# --- Sensirion ---


def test_sht_values():
    for driver, kind, other, least, most in (("sht3x", SHT3X, SHT4X, 0, 100), ("sht4x", SHT4X, SHT3X, -6, 119)):
        assert "check whether it is that chip" in Bench(driver, SHT(*other, 1, 1)).error()
        for raw in (0, 0xFFFF):  # -45 and 130 degrees
            assert "it measures from -40 to 125" in Bench(driver, SHT(*kind, raw, 0x6666)).error()
        for raw, degrees in ((0x0800, -39.53155), (0x6666, 25), (0xF000, 119.065)):
            for word, share in ((0, 0), (0x6666, 0.4), (0xFFFF, 1)):
                bench = Bench(driver, SHT(*kind, raw, word))
                readings = bench.read()
                eq((sorted(readings), bench.errors), (["-humidity", "-temperature"], {}))
                eq(bench.units, ["Cel", "%RH"])
                close(readings["-temperature"], degrees)
                close(readings["-humidity"], min(max(least + share * (most - least), 0), 100))


def test_sensirion_wrong_bits_are_no_reading():
    for driver, n in (("sht3x", 48), ("sht4x", 48), ("scd4x", 72)):
        for bit in range(n):
            chip = dict(chips())[driver]
            chip.flip = bit
            assert "wrong checksum" in Bench(driver, chip).error(), (driver, bit)


def test_scd4x_values():
    bench = Bench("scd4x", SCD4x(500, 0x6667, 0x5EB9))  # the example in the data sheet: 500 ppm, 25 degrees, 37 %
    readings = bench.read()
    eq((sorted(readings), bench.units), (["-co2", "-humidity", "-temperature"], ["ppm", "Cel", "%RH"]))
    eq(readings["-co2"], 500)
    assert abs(readings["-temperature"] - 25) < 0.01 and abs(readings["-humidity"] - 37) < 0.01, readings
    for word in (0, 0xFFFF):
        assert "it measures from -10 to 60" in Bench("scd4x", SCD4x(500, word, 0x5EB9)).error()
    for co2 in (0, 40_001, 0xFFFF):
        bench = Bench("scd4x", SCD4x(co2, 0x6667, 0x5EB9))
        eq(sorted(bench.read()), ["-humidity", "-temperature"])
        assert "%d ppm: it has not measured" % co2 in bench.errors["scd4x-co2"], bench.errors


def test_scd4x_measures_on_when_the_device_restarts():
    chip = SCD4x(500, 0x6667, 0x5EB9)
    Bench("scd4x", chip).read()
    clock.sleep_ms(60_000)
    bench = Bench("scd4x", chip)
    before = clock.now
    eq(bench.read()["-co2"], 500)
    eq(chip.starts, 1)
    assert clock.now - before < 100  # it has a value already
    eq(bench.read()["-co2"], 500)  # and the next one after 5 s


# --- Bosch ---


def test_bme280_values():
    """They agree with the data sheet. Its numbers of 12 bits keep their sign."""
    bench = Bench("bme280", BME280(*RAW))
    readings = bench.read()
    eq((sorted(readings), bench.units), (["-humidity", "-pressure", "-temperature"], ["Cel", "Pa", "%RH"]))
    assert abs(readings["-temperature"] - 25.08) < 0.005, readings
    assert abs(readings["-pressure"] - 100653.27) < 0.1, readings  # a float of 32 bits has 100653.266
    for raw, more in ((30281, {}), (10_000, {"h4": -2, "h5": -43})):
        value = Bench("bme280", BME280(*RAW[:2], raw, **more)).read()["-humidity"]
        # The data sheet's formula for 32-bit integers rounds at each step.
        assert abs(value - whole_humidity(raw, **more)) < 0.05, (value, whole_humidity(raw, **more))
    eq(sorted(Bench("bme280", BME280(*RAW, chip=0x58)).read()), ["-pressure", "-temperature"])  # a BMP280


def whole_humidity(raw, h1=75, h2=370, h3=0, h4=301, h5=50, h6=30, fine=128422):
    v = fine - 76800
    a = ((raw << 14) - (h4 << 20) - h5 * v + 16384) >> 15
    b = ((((((v * h6) >> 10) * (((v * h3) >> 11) + 32768)) >> 10) + 2097152) * h2 + 8192) >> 14
    v = a * b
    v -= ((((v >> 15) * (v >> 15)) >> 7) * h1) >> 4
    return (max(0, min(v, 419430400)) >> 12) / 1024


def test_bme280_values_that_are_none():
    t, p, h = RAW
    nothing = (0, 0, 0), (1048575, 1048575, 65535), (0x80000, 0x80000, 0x8000)
    partly = ((0x80000, p, h),)
    # -44 and 87 degrees, 266 and 1137 hPa
    beyond = (0, p, h), (300_000, p, h), (720_000, p, h), (t, 850_000, h), (t, 340_000, h)
    for raw in nothing + partly + beyond:
        assert "check its wires" in Bench("bme280", BME280(*raw)).error(), raw


def test_bme280_value_that_is_none_beside_others():
    t, p, h = RAW
    for raw in (t, 0x80000, h), (t, 0, h), (t, 1048575, h), (t, p, 0x8000), (t, p, 0), (t, p, 65535):
        bench = Bench("bme280", BME280(*raw))
        readings = bench.read()
        missing = "-pressure" if raw[2] == h else "-humidity"
        eq(sorted(readings), sorted({"-temperature", "-pressure", "-humidity"} - {missing}))
        eq(list(bench.errors), ["bme280" + missing])
        assert "check its wires" in bench.errors["bme280" + missing]


def test_bme280_calibration_that_was_read_wrong():
    """It has no checksum: a wrong bit would make all values wrong until the next start."""
    chip = BME280(*RAW)
    bench = Bench("bme280", chip)
    for register in (0x88, 0xA1, 0xE1):
        chip.wrong = {register: 4}
        assert "calibration changes" in bench.error()
    assert bench.read() and not bench.errors


# --- others ---


def test_bh1750_values():
    for raw, lux in ((0, 0), (1, 1 / 1.2), (33792, 28160), (65534, 65534 / 1.2)):
        bench = Bench("bh1750", BH1750(raw))
        close(bench.value(), lux)
        eq(bench.units, ["lx"])
    assert "more than 54612 lx" in Bench("bh1750", BH1750(65535)).error()
    chip = BH1750(1200)
    bench = Bench("bh1750", chip)
    for lux in (1000, 20, 3000):
        chip.raw = lux * 12 // 10
        close(bench.value(), lux)  # it has time to measure: never the one before


def test_ina219_values():
    bench = Bench("ina219", INA219(12, 50))
    readings = bench.read()
    eq((sorted(readings), bench.units), (["-current", "-power", "-voltage"], ["V", "A", "W"]))
    for name, value in (("-voltage", 12), ("-current", 0.5), ("-power", 6)):
        close(readings[name], value)
    for volts, millivolts in ((0, 0), (31.996, 319.99), (3.3, -0.01), (5, -319.99)):
        readings = Bench("ina219", INA219(volts, millivolts), shunt=0.01).read()
        close(readings["-voltage"], volts)
        close(readings["-current"], millivolts / 10)
        close(readings["-power"], volts * millivolts / 10)


def test_ina219_out_of_range():
    for millivolts in (320, -320, 1000):
        bench = Bench("ina219", INA219(12, millivolts))
        eq(list(bench.read()), ["-voltage"])
        assert "less resistance" in bench.errors["ina219-current"], bench.errors
    bench = Bench("ina219", INA219(33, 50))
    eq(list(bench.read()), ["-current"])
    assert "32 V or more" in bench.errors["ina219-voltage"], bench.errors
    bench = Bench("ina219", INA219(12, 50))
    bench.read()
    bench.plug(Other(b"\xff"), 64)  # the wires are high
    assert "it has not measured" in bench.error()
    for shunt in (0, -0.1):
        assert "shunt: write its resistance in ohms" in Bench("ina219", INA219(12, 50), shunt=shunt).error()


def test_ds3231_values():
    for quarters, degrees in ((101, 25.25), (0, 0), (-1, -0.25), (-41, -10.25), (-160, -40), (340, 85)):
        bench = Bench("ds3231", DS3231(quarters))
        eq((bench.read(), bench.units), ({"-temperature": degrees}, ["Cel"]))
    for quarters in (-512, 511):
        assert "it measures from -45 to 90" in Bench("ds3231", DS3231(quarters)).error()
    # While it measures by itself it is not started.
    chip = DS3231(101)
    bench = Bench("ds3231", chip)
    chip.by_itself()
    eq((bench.read(), chip.started), ({"-temperature": 25.25}, 0))
    eq((bench.read(), chip.started), ({"-temperature": 25.25}, 1))
    eq(chip.registers[0x0E], 0x1C)  # the rest of its settings is as before


def test_vl53l0x_values():
    for mm in (0, 30, 256, 1999):
        bench = Bench("vl53l0x", VL53L0X(mm))
        close(bench.value(), mm / 1000)
        eq(bench.units, ["m"])
    chip = VL53L0X(500)
    bench = Bench("vl53l0x", chip)
    for chip.mm in (500, 600):
        close(bench.value(), chip.mm / 1000)
    eq(chip.registers[0x89], 0x21)  # 2.8 V at the bus; the other bits as before
    chip.slow = 10_000
    assert "still measuring" in bench.error()  # not the value before
    for state in range(16):
        if state != 11:
            text = Bench("vl53l0x", VL53L0X(500, state)).error()
            assert ("laser failed" if state in (1, 2, 3) else "sees nothing") in text and "%d:" % state in text, text
    for mm in (8190, 8191):
        assert "sees nothing" in Bench("vl53l0x", VL53L0X(mm)).error()

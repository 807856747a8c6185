"""Actuators on fake hardware: what they do, what survives a restart, and their errors."""

import json

import files
from actuators import Actuators
from hardware import Pin, With
from harness import eq, raises
from inflight import Journal, RamFlash
from ports import Module
from ram_board import Board
from scratch import Folder, Replaced

RUNTIMES = "cpython micropython-x86"


class Pwm:
    made = []

    def __init__(self, pin):
        self.pin = pin
        Pwm.made.append(self)

    def freq(self, hz):
        if hz < 8:
            raise ValueError("freq too small")
        self.hz = hz

    def duty_u16(self, duty):
        self.duty = duty


class Leds:
    made = []

    def __init__(self, pin, count):
        self.color = None
        self.shown = None
        self.count = count
        Leds.made.append(self)

    def fill(self, color):
        self.color = color

    def write(self):
        self.shown = self.color


class App:
    """A device with these actuators. `published`: [(topic, fields)]."""

    def __init__(self, folder, entries):
        self.board = Board(folder.at("config.json"))
        self.config = Module(actuators=entries)
        self.errors = {}
        self.journal = Journal(RamFlash(3, 1024))
        self.published = []
        self.actuators = Actuators(self)

    def report(self, topic, fields, retain):
        assert retain
        self.published.append((topic, fields))

    def command(self, name, text):
        payload = text if isinstance(text, bytes) else text.encode()
        return self.actuators.execute(name, Module(payload=payload, mid=1, redelivered=False))


class Device(Folder):
    """`with Device() as start:` the fake hardware; start(entry, ...) starts an App with these actuators."""

    def __enter__(self):
        self._machine = With(machine=Module(Pin=Pin, PWM=Pwm), neopixel=Module(NeoPixel=Leds))
        self._machine.__enter__()
        for made in (Pin.made, Pwm.made, Leds.made):
            made.clear()
        return super().__enter__()

    def __exit__(self, *why):
        super().__exit__(*why)
        self._machine.__exit__(*why)

    def __call__(self, *entries):
        return App(self, entries)


PUMP = {"driver": "switch", "pin": 5, "name": "pump"}


def test_switch():
    with Device() as start:
        app = start(PUMP)
        (pin,) = Pin.made
        eq((pin.number, pin.how, pin.levels), (5, (Pin.OUT,), [False]))
        for text, level in (("on", True), ("on", True), ("off", False), ("toggle", True), ("toggle", False)):
            eq(app.command("pump", text), {"state": "on" if level else "off"})
            eq(pin.levels[-1], level)
            eq(app.published[-1], ("actuator/pump", {"state": "on" if level else "off"}))
        raises(ValueError, app.command, "pump", b"\xff")
        for text in ("", "ON", "1", "of"):
            assert "write on, off or toggle" in str(raises(ValueError, app.command, "pump", text)), text
        eq(pin.levels[-1], False)
        start(dict(PUMP, invert=True)).command("pump", "on")
        eq(Pin.made[1].levels, [True, False])


def test_pwm():
    with Device() as start:
        app = start({"driver": "pwm", "pin": 5, "name": "fan", "freq": 25000})
        (pwm,) = Pwm.made
        eq((pwm.hz, pwm.duty), (25000, 0))
        for text, percent, duty in (("50", 50, 32768), ("12.5", 12.5, 8192), ("on", 100, 65535), ("toggle", 0, 0)):
            eq(app.command("fan", text), {"state": percent})
            eq(pwm.duty, duty)
        for text in ("", "101", "-1", "nan", "inf", "half"):
            assert "0 to 100" in str(raises(ValueError, app.command, "fan", text)), text
        start({"driver": "pwm", "pin": 6, "invert": True})
        eq(Pwm.made[1].duty, 65535)
        app = start({"driver": "pwm", "pin": 5, "name": "fan", "freq": 1})
        assert "freq 1: not a frequency of this board" in app.errors["fan"], app.errors


def test_led():
    with Device() as start:
        app = start({"driver": "led", "pin": 5, "name": "lamp", "count": 3})
        (leds,) = Leds.made
        eq((leds.count, leds.shown), (3, (0, 0, 0)))
        eq(app.command("lamp", "#FF8000"), {"state": "on", "color": "#ff8000"})
        eq(leds.shown, (255, 128, 0))
        eq(app.command("lamp", "off"), {"state": "off", "color": "#ff8000"})
        eq(leds.shown, (0, 0, 0))
        app.command("lamp", "toggle")
        eq(leds.shown, (255, 128, 0))
        for text in ("", "red", "#ff80", "#ff800g", "ff80000", "#ff80000"):
            assert "#ff8000" in str(raises(ValueError, app.command, "lamp", text)), text
        for count in (0, 1001):
            assert "1 to 1000" in start({"driver": "led", "pin": 5, "count": count}).errors["led"]


def test_missing_neopixel_error_tells_how_to_install_it():
    with Device() as start, With(neopixel=None):
        assert "mpremote mip install neopixel" in start({"driver": "led", "pin": 5}).errors["led"]


def test_the_first_start_is_off_unless_restore_says_on():
    """Later ones are as it says; the state of another driver is not restored."""
    for restore, first, later in (
        ("last", "off", ("on", "off")),
        ("on", "on", ("on", "on")),
        ("off", "off", ("off", "off")),
    ):
        entry = dict(PUMP, restore=restore)
        for text, after in zip(("on", "off"), later):
            with Device() as start:
                app = start(entry)
                eq(app.actuators.states["pump"]["state"], first)
                app.command("pump", text)
                eq(start(entry).actuators.states["pump"]["state"], after)
                eq(Pin.made[-1].levels, [after == "on"])  # never the other one, not even for a moment
                eq(start({"driver": "pwm", "pin": 5, "name": "pump"}).actuators.states["pump"], {"state": 0})


def test_damaged_file():
    with Device() as start:
        with open(start.at("actuators.json"), "w") as f:
            f.write('{"pump": ["sw')
        app = start(PUMP)
        assert "damaged" in app.errors["actuators"]
        app.command("pump", "on")
        with open(start.at("actuators.json")) as f:
            eq(json.loads(f.read())["pump"][:2], ["switch", {"state": "on"}])


def test_a_file_that_cannot_be_read_now_is_not_replaced():
    with Device() as start:
        start(PUMP).command("pump", "on")

        def fails(path):
            raise OSError(5, "EIO")

        with Replaced(files, open=fails):
            app = start(PUMP)
            assert "EIO" in app.errors["pump"]
            raises(OSError, app.command, "pump", "off")
        eq(start(PUMP).actuators.states["pump"], {"state": "on"})
        eq(app.command("pump", "on"), {"state": "on"})
        eq(app.errors, {})


def test_errors_of_entries():
    with Device() as start:
        app = start(
            {"driver": "valve", "name": "a"},
            {"driver": "switch", "name": "b"},
            {"driver": "switch", "pin": 99, "name": "c"},
            {"driver": "switch", "pin": 5, "name": "d", "restore": "yes"},
            {"driver": "switch", "pin": 6, "name": "e"},
        )
        for name, text in (
            ("a", 'unknown driver "valve": remove it, or use one of led, pwm, switch (or copy a module actuator_valve'),
            ("b", 'write "pin": ...'),
            ("c", "pin 99: not a pin of this board"),
            ("d", 'restore: write "last", "on" or "off"'),
        ):
            assert text in app.errors[name], app.errors
            assert text in str(raises(ValueError, app.command, name, "on"))
        app.actuators.publish_all()
        eq(app.published, [("actuator/e", {"state": "off"})])
        assert "use a, b, c, d, e" in str(raises(ValueError, app.command, "f", "on"))


def test_hardware_that_fails_keeps_the_old_state():
    class Broken(Pin):
        broken = False

        def value(self, level):
            if Broken.broken:
                raise OSError(5, "EIO")
            Pin.value(self, level)

    with Device() as start, With(machine=Module(Pin=Broken)):
        app = start(PUMP)
        Broken.broken = True
        assert "EIO" in str(raises(OSError, app.command, "pump", "on"))
        assert "EIO" in app.errors["pump"]
        Broken.broken = False
        eq(start(PUMP).actuators.states["pump"], {"state": "off"})
        eq(app.command("pump", "on"), {"state": "on"})  # the driver is made again
        eq(app.errors, {})


def test_a_file_that_cannot_be_written_changes_nothing():
    with Device() as start:
        app = start(PUMP)
        app.actuators.path = "no-such-folder/actuators.json"
        raises(OSError, app.command, "pump", "on")
        eq(app.actuators.states["pump"], {"state": "off"})
        eq(Pin.made[0].levels, [False])

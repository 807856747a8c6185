"""Report on change: what is published, and when, on a clock of the test's own."""

import changes
import telemetry
from hardware import With
from harness import eq
from ports import Module

RUNTIMES = "cpython micropython-x86"
_ENTRY = {"driver": "series", "name": "door", "report_on_change": True, "check_ms": 100}


class Series:
    """A sensor of this `value`. takes_ms: of a measurement; 0: it measures when it is read."""

    takes_ms = 0
    value = True

    def __init__(self, clock):
        self.clock = clock
        self.ready = None
        series = self

        class Driver:
            def __init__(self, fields, name):
                assert not ("report_on_change" in fields or "check_ms" in fields)
                self._name = name
                if series.takes_ms:
                    self.start = series.start

            def read(self):
                return series.read(self._name)

        self.module = Module(FIELDS={}, Driver=Driver)

    def start(self):
        self.ready = self.clock.now + self.takes_ms
        return self.takes_ms

    def read(self, name):
        assert not self.takes_ms or self.ready is not None and self.clock.now >= self.ready, "read before it is ready"
        self.ready = None
        return [(name, None, self.value)]


class Device:
    """Reads at the interval, and in between each ms what is due; all is published."""

    def __init__(self, interval_ms=60_000, takes_ms=0, **fields):
        self.now = 0
        self.series = Series(self)
        self.series.takes_ms = takes_ms
        self.errors = {}
        self.published = []  # [(time, value)]
        self._interval_ms = interval_ms
        self._fields = fields

    def __enter__(self):
        self._with = With(sensor_series=self.series.module)
        self._with.__enter__()
        changes.ticks_ms = lambda: self.now
        self._sources = [changes.WatchedSensor(dict(_ENTRY, **self._fields))]
        self.changes = changes.Changes(self._sources)
        self._ready = None
        return self

    def __exit__(self, *how):
        from inflight.compat import ticks_ms

        changes.ticks_ms = ticks_ms
        self._with.__exit__(*how)

    def run(self, ms):
        """For so long; returns what was published meanwhile."""
        before = len(self.published)
        for _ in range(ms):
            if self.now % self._interval_ms == 0:
                self._ready = self.now + telemetry.start(self._sources)
            if self._ready is not None and self.now >= self._ready:
                self._ready = None
                self._publish(list(telemetry.read(self._sources, self.errors)))
            self._publish(self.changes.step(self.now, self._ready is not None, self.errors))
            self.now += 1
        return self.published[before:]

    def _publish(self, readings):
        if readings:
            self.published.extend([(self.now, value) for _, _, value in readings])
            self.changes.see(readings)


def test_a_change_is_published_at_once_and_nothing_else():
    with Device() as device:
        eq(device.run(5_050), [(0, True)])
        device.series.value = False
        eq(device.run(5_000), [(5_100, False)])
        device.series.value = True
        eq(device.run(5_000), [(10_100, True)])
        eq(device.run(44_950), [])
        eq(device.run(10), [(60_000, True)])
        eq(device.changes.count, 0)


def test_a_number_has_to_differ_by_so_much_from_the_last_that_was_published():
    """Not from the last that was read: else nobody would see it drift. Rounding does not count."""
    with Device(report_on_change=0.1) as device:
        device.series.value = 0.2
        device.run(1_000)
        for value, expected in ((0.25, []), (0.29, []), (0.3, [0.3]), (0.21, []), (0.2, [0.2]), (-5.5, [-5.5])):
            device.series.value = value
            eq([found for _, found in device.run(200)], expected)
    with Device(report_on_change=1) as device:
        device.series.value = 5_000_000
        eq(len(device.run(10_000)), 1)
    with Device(report_on_change=5) as device:
        for value in ("auto", "off", True, False, 2, 4, 8):
            device.series.value = value
            device.run(100)
        eq([value for _, value in device.published], ["auto", "off", True, False, 2, 8])


def test_a_noisy_input_is_limited_and_its_last_state_is_published():
    with Device(interval_ms=3_600_000, check_ms=50) as device:
        device.run(10)
        for n in range(6_000):
            device.series.value = n % 2 == 0
            device.run(50)
        noisy = device.now
        eq(len(device.published), 1 + 10 + (noisy - 500) // 10_000)
        assert 2_900 < device.changes.count < 3_000  # each second one is back at what was published
        device.series.value = "last"
        ((at, value),) = device.run(20_000)
        eq(value, "last")
        assert at - noisy <= 10_000
        count = device.changes.count
        device.run(200_000)
        for n in range(10):  # after a pause it is as before
            device.series.value = n
            eq([value for _, value in device.run(60)], [n])
        eq(device.changes.count, count)


def test_a_slow_sensor_is_read_when_it_is_ready():
    """Also where the reading at the interval begins while it measures: that begins it anew."""
    for check_ms in (100, 400, 1_000):
        with Device(interval_ms=1_000, takes_ms=750, check_ms=check_ms) as device:
            device.run(50_000)
            eq((device.errors, len(device.published)), ({}, 50))
    with Device(takes_ms=750) as device:
        device.run(10_000)
        device.series.value = 20.5
        ((at, value),) = device.run(10_000)
        eq(value, 20.5)
        assert at <= 10_000 + 2 * 850, at


def test_a_wrong_entry_is_an_error_of_its_sensor():
    for wrong, text in (
        ({"report_on_change": 0}, "report_on_change: write true, or the least difference, a number above 0"),
        ({"check_ms": 49}, "check_ms: write a whole number from 50 to 3600000"),
        ({"report_on_change": False}, "check_ms needs report_on_change: write both, or leave check_ms out"),
    ):
        with Device(**wrong) as device:
            eq(device.run(200), [])
            eq(device.errors["door"], "SensorError: " + text)

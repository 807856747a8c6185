# Report on change: a sensor whose entry has `report_on_change` is also read each `check_ms`, and a reading that differs
# by so much from the last one that was published is published at once. Loaded by a device that has such a sensor, and
# for the check of an entry.
#
# A sensor reports _BURST changes at once, and then one each _GAP_MS, so that a noisy input takes no more of the journal
# than readings at the default interval. A change beyond that is counted, and waits: the sensor's newest reading is
# published when the limit allows it, if it still differs.

import telemetry
from inflight.compat import const, ticks_add, ticks_diff, ticks_ms
from sensors import Sensor, SensorError

_BURST = const(10)
_GAP_MS = const(10_000)
_CHECK_MS = const(1_000)
_LEAST_MS = const(50)
_MOST_MS = const(3_600_000)
_ROUNDING = 1e-6  # of a value: a board's numbers have 32 bits


def driver_fields(entry):
    """`entry` without the fields of this module, which no driver gets."""
    return {name: entry[name] for name in entry if name != "report_on_change" and name != "check_ms"}


def change_fields(entry):
    """(least difference, True: any, False: no report on change; ms between two checks) of an entry of `sensors`. Raises
    SensorError."""
    margin = entry.get("report_on_change", False)
    ms = entry.get("check_ms", _CHECK_MS)
    if not isinstance(margin, bool) and not (isinstance(margin, (int, float)) and margin > 0):
        raise SensorError("report_on_change: write true, or the least difference, a number above 0")
    if type(ms) is not int or not _LEAST_MS <= ms <= _MOST_MS:
        raise SensorError("check_ms: write a whole number from %d to %d" % (_LEAST_MS, _MOST_MS))
    if "check_ms" in entry and not margin:
        raise SensorError("check_ms needs report_on_change: write both, or leave check_ms out")
    return margin, ms


class WatchedSensor(Sensor):
    """A sensor that may report on change. margin: see change_fields(). at: when it is to be read next, beside the
    readings at the interval."""

    def __init__(self, entry):
        super().__init__(driver_fields(entry))
        self._wrong = None
        self.margin = False
        try:
            self.margin, self._ms = change_fields(entry)
        except SensorError as e:
            self._wrong = e  # an error of each reading
        self._measures = False  # since begin()
        self._waiting = None  # {name: value} of the last change that was not published
        self._limit_at = ticks_ms()  # this moves on by _GAP_MS with each report
        self.at = ticks_add(self._limit_at, self._ms if self.margin else 0)

    def start(self):
        if self._wrong:
            self._failed(self._wrong)
            return 0
        return Sensor.start(self)

    def begin(self, now, measuring):
        """Begins a measurement if that is due. Returns True if the sensor is to be read now. measuring: all sensors
        are, for the readings at the interval."""
        if measuring and not (self._driver and not hasattr(self._driver, "start")):
            self._measures = False  # what takes time was begun anew for those
            self.at = ticks_add(now, self._ms)
            return False
        if ticks_diff(self.at, now) > 0:
            return False
        ms = 0 if self._measures else self.start()
        self._measures = ms > 0
        self.at = ticks_add(now, ms or self._ms)
        return not ms

    def reports(self, readings, published, now):
        """What is to be published of its `readings`: all or none. published: {name: value} of the last ones that
        were. Returns that, and how many changes are to wait: 1 or 0."""
        if ticks_diff(self._limit_at, now) < 0:
            self._limit_at = now
        if not self._differ(readings, published):
            self._waiting = None
            return [], 0
        if ticks_diff(self._limit_at, now) > (_BURST - 1) * _GAP_MS:
            if self._waiting is not None and not self._differ(readings, self._waiting):
                return [], 0  # it is counted
            self._waiting = {name: value for name, _, value in readings}
            return [], 1
        self._limit_at = ticks_add(self._limit_at, _GAP_MS)
        self._waiting = None
        return readings, 0

    def _differ(self, readings, before):
        for name, _, value in readings:
            if name not in before or self._differs(value, before[name]):
                return True
        return False

    def _differs(self, value, before):
        if self.margin is True or isinstance(value, (bool, str)) or isinstance(before, (bool, str)):
            return value != before
        return value != before and abs(value - before) + abs(value) * _ROUNDING >= self.margin


class Changes:
    """What those of the WatchedSensors `sensors` report that do so on change. left: ms until one of them is due. count:
    changes that were not published at once."""

    def __init__(self, sensors):
        self.left = self.count = 0
        self._published = {}  # {name: value} of the last readings that were
        self._watched = [sensor for sensor in sensors if sensor.margin]

    def see(self, readings):
        """These readings, triples, were published."""
        for name, _, value in readings:
            self._published[name] = value

    def step(self, now, measuring, errors):
        """Reads what is due. Returns the readings to publish. measuring: as for begin(). errors: as for
        telemetry.read()."""
        found = []
        self.left = _MOST_MS
        for sensor in self._watched:
            if sensor.begin(now, measuring):
                reported, waits = sensor.reports(list(telemetry.read((sensor,), errors)), self._published, now)
                found += reported
                self.count += waits
            self.left = min(self.left, ticks_diff(sensor.at, now))
        return found

# The application of a device that stays awake and has sensors that report on change, see changes.

import app
from changes import Changes, WatchedSensor


class App(app.App):
    """As that one; what changes between two readings of all sensors is published in the same way."""

    def __init__(self, *given):
        super().__init__(*given)
        sensors = [WatchedSensor(entry) for entry in self.config.sensors]
        self.sources[1:] = sensors  # behind those of the board
        self._changes = Changes(sensors)
        self._newest = []  # readings, for Home Assistant

    def _read(self):
        self._newest = app.App._read(self)
        return self._newest

    def _keep_reading(self, now):
        left = app.App._keep_reading(self, now)
        changed = self._changes.step(now, self._reading_sensors, self.errors)
        if changed:
            self._publish_telemetry(changed)
            if self.home:
                names = [name for name, _, _ in changed]
                self._newest = [reading for reading in self._newest if reading[0] not in names] + changed
                self.home.see(self._newest)
            if self.rules:
                self.rules.see(changed)
        return min(left, self._changes.left)

    def _publish_telemetry(self, readings):
        if app.App._publish_telemetry(self, readings):
            self._changes.see(readings)

    def _publish_health(self, **more):
        app.App._publish_health(self, coalesced=self._changes.count, **more)

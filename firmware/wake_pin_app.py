# The application of a device that sleeps, and that a pin wakes, too: when its level has changed.
#
# The level is noted just before the sensors are read, and the sleep ends when the pin has the other one. So a change
# while the device is awake ends the next sleep at once; only one that is taken back by then is missed. A wake by the
# pin is a reading, in the journal with the others before the radio is on, and reports at once. It lasts for _LEAST_MS,
# the rest of it with the radio off: that is the limit for a noisy pin.

import wake_pin
from inflight.compat import const, ticks_diff, ticks_ms
from sleeping_app import SleepingApp
from telemetry import describe

_LEAST_MS = const(10_000)


class App(SleepingApp):
    """As SleepingApp; Node documents the arguments."""

    @staticmethod
    def slept(board, config):
        """As there; when the pin woke the device nobody knows how much of its period it slept."""
        return 0 if wake_pin.woke() else SleepingApp.slept(board, config)

    def __init__(self, *given):
        self._woke = wake_pin.woke()  # now: a light sleep changes it
        super().__init__(*given)
        if self._woke:
            self._memory.since = self.config.report_every  # a report is due
        self._pin = None
        try:
            wake_pin.check(self.config.wake_on_pin)
            self._pin = self.config.wake_on_pin
        except ValueError as e:
            self.errors["wake_on_pin"] = describe(e)

    def _recall_time(self):
        memory = self._memory
        if self._woke and self._board_cs() < memory.clock:  # else it was set to the day of the build
            memory.clock = max(self._board_cs(), 1)  # expected was a later wake; the clock of such a board runs on
        super()._recall_time()

    def _read(self):
        if self._pin is not None:
            self._level = wake_pin.level(self._pin)
        return super()._read() + [("wake", None, self._woke)]

    def _publish_status(self, state, **more):
        if self._woke:
            more["wake"] = "pin"
        return super()._publish_status(state, **more)

    def run(self):
        left = super().run()
        if left and self._pin is not None:
            left = self._arm(left)
        return left

    def _arm(self, left):
        # Returns what is left of the time until the next wake.
        pause = _LEAST_MS - ticks_diff(ticks_ms(), self._began) if self._woke else 0
        if pause >= left:
            return left
        if pause > 0:
            self._feed()
            self.network.off(pause)
            self.board.sleep(pause)
            left -= pause
        wake_pin.arm(self._pin, not self._level)
        return left

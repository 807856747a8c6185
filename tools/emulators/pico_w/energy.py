"""What a sensor that sleeps takes out of its battery: the emulator's times of a wake, and currents that are assumed.

The emulator has neither currents nor the time of flash, access point and broker. So the figures tell what the length of
a wake counts beside the sleep, and not how long a battery of yours lasts."""

from dataclasses import dataclass

# Assumptions: the order of what data sheets have. mA at 3.3 V.
PROCESSOR_MA = 25  # RP2040 at 125 MHz, which executes from flash
RADIO_MA = 45  # CYW43439 that receives, without power saving; it sends for a few ms
SLEEP_MA = 1.5  # a Pico in machine.lightsleep(), as MicroPython's developers measured at its USB port
VOLTS = 3.3
EFFICIENCY = 0.85  # of the board's converter
REAL_MS = 1_000  # of flash, access point and broker, with processor and radio on
USABLE = 0.8  # of a battery's charge: it ages, and it is cold outside
BATTERIES = {"CR123A": (1_500, 3.0), "18650": (3_000, 3.6)}  # mAh, V
MINUTES = 1, 10, 60  # between two wakes


@dataclass(frozen=True)
class Cost:
    """Of a wake. awake_ms: from the reset to the sleep; radio_ms: with the radio on."""

    awake_ms: float
    radio_ms: float

    @property
    def processor_mj(self):
        return PROCESSOR_MA * VOLTS * (self.awake_ms + REAL_MS) / 1000

    @property
    def radio_mj(self):
        return RADIO_MA * VOLTS * (self.radio_ms + REAL_MS) / 1000

    def days(self, battery, minutes):
        """How long `battery` lasts with a wake every so many minutes."""
        mah, volts = BATTERIES[battery]
        usable_mj = mah * volts * USABLE * 3600 * EFFICIENCY
        asleep_s = max(0, minutes * 60 - (self.awake_ms + REAL_MS) / 1000)
        each_mj = self.processor_mj + self.radio_mj + SLEEP_MA * VOLTS * asleep_s
        return usable_mj / each_mj * minutes / (24 * 60)

    def figures(self):
        """Yields (what, number)."""
        yield "a wake: mJ of the processor", round(self.processor_mj)
        yield "a wake: mJ of the radio", round(self.radio_mj)
        for minutes in MINUTES:
            asleep_mj = SLEEP_MA * VOLTS * minutes * 60
            yield f"asleep, {minutes} min: mJ", round(asleep_mj)
            for battery in BATTERIES:
                yield f"a wake every {minutes} min: days of a {battery}", round(self.days(battery, minutes))

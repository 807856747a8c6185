"""What a sensor that sleeps takes out of its battery: the emulator's times of a wake, and currents that are assumed.

The emulator has neither currents nor the time of flash, access point and broker. So the figures tell what the length of
a wake counts beside the sleep, and not how long a battery of yours lasts."""

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


def figures(awake_ms, radio_ms):
    """Yields (what, number) of a wake: awake_ms from the reset to the sleep, of them radio_ms with the radio on."""
    processor_mj = PROCESSOR_MA * VOLTS * (awake_ms + REAL_MS) / 1000
    radio_mj = RADIO_MA * VOLTS * (radio_ms + REAL_MS) / 1000
    yield "a wake: mJ of the processor", round(processor_mj)
    yield "a wake: mJ of the radio", round(radio_mj)
    for minutes in MINUTES:
        yield f"asleep, {minutes} min: mJ", round(SLEEP_MA * VOLTS * minutes * 60)
        asleep_s = max(0, minutes * 60 - (awake_ms + REAL_MS) / 1000)
        each_mj = processor_mj + radio_mj + SLEEP_MA * VOLTS * asleep_s
        for battery, (mah, volts) in BATTERIES.items():
            usable_mj = mah * volts * USABLE * 3600 * EFFICIENCY
            yield f"a wake every {minutes} min: days of a {battery}", round(usable_mj / each_mj * minutes / (24 * 60))

# What launch needs of a board while a release is tried; see boards/README.md.

import machine


def was_cut(folder):
    return machine.reset_cause() == machine.PWRON_RESET


def watchdog():
    machine.WDT(timeout=180_000)

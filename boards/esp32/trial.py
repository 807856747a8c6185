# What launch needs of a board while a release is tried; see boards/README.md.

import machine


def was_cut(folder):
    return machine.reset_cause() == machine.PWRON_RESET


def watchdog():
    machine.WDT(timeout=180_000)


# --- firmware ---


def firmware():
    from esp32 import Partition

    return Partition(Partition.RUNNING).info()[1]  # type: ignore[arg-type]


def start_firmware(subtype):
    from esp32 import Partition

    Partition.find(Partition.TYPE_APP, subtype)[0].set_boot()
    machine.reset()


def keep_firmware():
    from esp32 import Partition

    Partition.mark_app_valid_cancel_rollback()

# ESP32, S2, S3, C3, C6: everything that MicroPython calls its esp32 port.

import machine
import power
from power import recall, remember, reset_cause, sleep, stop_watchdog, watchdog

NAME = "esp32"
ATTENDED = False
JOURNAL_KB = 448  # 24 hours at the defaults

_id = None


def config_path():
    return "/config.json"


def device_id():
    global _id
    if _id is None:
        _id = machine.unique_id().hex()  # its Wi-Fi address, readable while Wi-Fi is off
    return _id


def network(fields=None):
    if power.network is None:
        if fields:
            from ethernet import Ethernet as Network
        else:
            from radio import Radio as Network
        power.network = Network(device_id(), fields)
    return power.network


def sync_time(host=None, within=None):
    from clock import sync

    return sync(host, within)


# --- flash ---


def _partition(label):
    from esp32 import Partition

    found = Partition.find(Partition.TYPE_DATA, label=label)
    return found[0] if found else None


def journal_flash(kb=64):
    from storage import journal_flash

    own = _partition("mqtt")
    raw = own or _partition("vfs")
    if raw and raw.info()[5]:
        return journal_flash()  # erased encrypted flash does not read as FF, as the journal requires
    return journal_flash(own, raw, page=64, kb=kb)


# --- sensors ---


def _temperature():
    import esp32

    if hasattr(esp32, "mcu_temperature"):
        return esp32.mcu_temperature()
    return (esp32.raw_temperature() - 32) / 1.8  # the first ESP32 measures in Fahrenheit


def _memory():
    import gc

    return gc.mem_free()


def sensors():
    from probe import readings

    return readings((("temperature", "Cel", _temperature), ("memory", "B", _memory)))

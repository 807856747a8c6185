# Pico W with RP2040, Pico 2 W with RP2350.

import machine
import power
from power import is_rp2350, recall, remember, reset_cause, sleep, stop_watchdog, watchdog

NAME = "rp2040"
ATTENDED = False
JOURNAL_KB = 256  # beside two releases; test_a_pico_has_space_for_updates

_id = None


def config_path():
    return "/config.json"


def device_id():
    global _id
    if _id is None:
        try:
            from network import STA_IF, WLAN
        except ImportError:  # a firmware for a board without Wi-Fi
            _id = machine.unique_id()[-6:].hex()
            return _id
        power.radio = radio = WLAN(STA_IF)
        if not radio.active():
            radio.active(True)  # the Wi-Fi chip has the address; before that it reads as zeros
        mac = radio.config("mac")
        _id = (mac if any(mac) else machine.unique_id()[-6:]).hex()
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


def journal_flash(kb=64):
    import rp2

    from storage import journal_flash

    return journal_flash(raw=rp2.Flash(), kb=kb)


# --- sensors ---


def _volts(channel):
    return machine.ADC(channel).read_u16() * 3.3 / 65535


def _temperature():
    return 27 - (_volts(machine.ADC.CORE_TEMP) - 0.706) / 0.001721


def _vsys():
    # Pin 29 has a third of the voltage while the Wi-Fi chip is not selected, as between two transfers. The pin is also
    # that chip's clock: meanwhile it must not be an output, and no transfer may begin.
    if not power.radio:
        return None  # the Wi-Fi chip is not running
    pad = (0x40038000 if is_rp2350() else 0x4001C000) + 0x78
    mask = machine.disable_irq()
    kept = machine.mem32[pad]
    try:
        machine.mem32[pad] = 0x80  # neither output nor input, no pull
        _volts(3)
        return 3 * _volts(3)
    finally:
        machine.mem32[pad] = kept
        machine.enable_irq(mask)


def _memory():
    import gc

    return gc.mem_free()


def sensors():
    from probe import readings

    return readings((("temperature", "Cel", _temperature), ("vsys", "V", _vsys), ("memory", "B", _memory)))

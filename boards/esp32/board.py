# ESP32, S2, S3, C3, C6: everything that MicroPython calls its esp32 port.

import machine

import wifi
from codes import (
    BROWN_OUT,
    CONNECTING,
    DEEP_SLEEP,
    FAILED,
    IDLE,
    NO_AP,
    ONLINE,
    PANIC,
    POWER_ON,
    RESET,
    SOFT,
    WATCHDOG,
    WRONG_KEY,
)
from inflight.compat import const, sleep_ms, ticks_diff, ticks_ms
from wifi import Wifi, rssi, sync_time, wifi_connect, wifi_off, wifi_setup, wifi_status

NAME = "esp32"
_DAY_MS = const(86_400_000)
_DIRECTED_MS = const(4_000)  # time-out for the remembered access point, before others are tried

_id = _cause = _dog = None


def config_path():
    return "/config.json"


def device_id():
    global _id
    if _id is None:
        _id = machine.unique_id().hex()  # its Wi-Fi address, readable while Wi-Fi is off
    return _id


# --- RTC memory, which survives a deep sleep and a reset ---

_MAGIC = b"IF"
_NOTE = const(2)  # what this firmware does
_ASKED = const(1)  # it asked for the reset, or has left the board to a person
_RUNNING = const(2)
_COUNT = const(3)  # number of remembered bytes
_DATA = const(4)
_AP = const(20)  # its address, 6 bytes, and its channel
_NETWORK = const(27)  # 2 bytes that identify its network
_CHECK = const(29)
_SIZE = const(33)  # the application may use the memory after this


def _check(data):
    from binascii import crc32

    return crc32(data).to_bytes(4, "little")


def _kept():
    kept = bytearray(machine.RTC().memory()[:_SIZE])
    if kept[:2] != _MAGIC or kept[_CHECK:] != _check(kept[:_CHECK]):
        kept = bytearray(_SIZE)
        kept[:2] = _MAGIC
    return kept


def _keep(at, data):
    kept = _kept()
    kept[at : at + len(data)] = data
    kept[_CHECK:] = _check(kept[:_CHECK])
    rtc = machine.RTC()
    rtc.memory(bytes(kept) + rtc.memory()[_SIZE:])


def remember(data):
    n = len(data)
    if n > 16:
        raise ValueError("remember: 16 bytes at most")
    _keep(_COUNT, bytes([n]) + data)


def recall():
    kept = _kept()
    return bytes(kept[_DATA : _DATA + kept[_COUNT]]) or None


# --- reset, sleep and watchdog ---


def reset_cause():
    global _cause
    if _cause is None:
        cause = machine.reset_cause()
        note = _kept()[_NOTE]
        _keep(_NOTE, bytes([_RUNNING]))
        if cause == machine.PWRON_RESET:  # or a brown-out: the port does not distinguish them
            from supply import failed

            _cause = BROWN_OUT if failed() else POWER_ON
        elif cause == machine.WDT_RESET:
            _cause = WATCHDOG
        elif cause == machine.DEEPSLEEP_RESET:
            _cause = DEEP_SLEEP
        elif note == _ASKED or cause == machine.SOFT_RESET:
            _cause = SOFT
        else:  # the port calls a panic and machine.reset() the same: a panic only happens to what is running
            _cause = PANIC if note == _RUNNING and cause == machine.HARD_RESET else RESET
    return _cause


def sleep(ms, deep=False):
    # The journal is committed already.
    if deep:
        if ms and wifi.station:
            wifi.station.note()
        wifi_off()
        if ms:
            machine.deepsleep(ms)
        _keep(_NOTE, bytes([_ASKED]))
        machine.reset()
    elif wifi.station and wifi.station.wlan.active():
        sleep_ms(ms)  # lightsleep() would stop the radio and lose the connection
    else:
        machine.lightsleep(ms)


def watchdog(ms):
    global _dog
    if _dog is None:
        _dog = machine.WDT(timeout=ms)
    _dog.feed()


def stop_watchdog():
    _keep(_NOTE, bytes([_ASKED]))
    if _dog:
        machine.WDT(timeout=_DAY_MS)  # it cannot be stopped


def firmware_slot():
    import firmware_slot

    return firmware_slot


# --- network and clock ---


def _network(ssid):
    from binascii import crc32

    return (crc32(ssid.encode()) & 0xFFFF).to_bytes(2, "little")


class _Wifi(Wifi):
    _directed = False

    def word(self, code):
        # Codes below 1000 are the driver's (wifi_err_reason_t). MicroPython names only some, depending on its version.
        if code == 1010:
            return ONLINE
        if code == 1001:
            return CONNECTING
        if code in (1000, 8):  # 8: it disconnected by itself
            return IDLE
        if code in (200, 201, 210, 211, 212):  # beacons lost; no access point, or no suitable one
            return NO_AP
        if code in (14, 15, 23, 202, 204, 205):  # handshakes that failed or timed out
            return WRONG_KEY
        return FAILED

    def joined(self):
        try:
            self.wlan.status("rssi")
            return True
        except OSError:
            return False

    def connect(self):
        # The driver would retry without end, and hide the reason: the firmware retries instead.
        self.wlan.config(reconnects=0)
        kept = _kept()
        channel = kept[_AP + 6]
        self._directed = channel > 0 and not self.networks and kept[_NETWORK:_CHECK] == _network(self.ssid)
        if not self._directed:
            self.wlan.connect(self.ssid, self.key)
            return
        bssid = bytes(kept[_AP : _AP + 6])
        try:
            self.wlan.connect(self.ssid, self.key, bssid=bssid, channel=channel)  # type: ignore[call-arg]
        except TypeError:  # stock firmware takes no channel
            self.wlan.connect(self.ssid, self.key, bssid=bssid)

    def status(self):
        word = Wifi.status(self)
        if self._directed and word != ONLINE:
            waited = ticks_diff(ticks_ms(), self._dialled)
            if word != CONNECTING or (waited >= _DIRECTED_MS and not self.joined()):
                # That access point is gone, or has changed: use any other.
                _keep(_AP, bytes(9))
                self._dial()
                word = CONNECTING
        return word

    def note(self):
        """Remembers the access point, so that the next start connects faster. Its address is only known from a scan,
        so this is done once, and only when it is useful."""
        if self.status() != ONLINE or self._directed:
            return
        channel = self.wlan.config("channel")
        try:
            found = [ap for ap in self.wlan.scan() if ap[0] == self.ssid.encode() and ap[2] == channel]
        except OSError:
            return
        if found:
            best = max(found, key=lambda ap: ap[3])
            _keep(_AP, best[1] + bytes([channel]) + _network(self.ssid))


wifi.use(lambda: _Wifi(device_id()))


# --- flash ---


def _partition(label):
    from esp32 import Partition

    found = Partition.find(Partition.TYPE_DATA, label=label)
    return found[0] if found else None


def journal_flash():
    from storage import journal_flash

    own = _partition("mqtt")
    raw = own or _partition("vfs")
    if raw and raw.info()[5]:
        return journal_flash()  # erased encrypted flash does not read as FF, as the journal requires
    return journal_flash(own, raw, page=64)


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

# Linux as a device. Its home folder contains the data that a board keeps in flash: the journal, the configuration, and
# the reset cause of the next start.
#
#   INFLIGHT_DEVICE_ID     identity, default: the MAC address
#   INFLIGHT_HOME          home folder, default: ~/.inflight/<identity>
#   INFLIGHT_ACCEPTED_LOG  file to which a line is appended for each accepted message, default: none

import os
import sys
from errno import EEXIST, ENOENT

from codes import DEEP_SLEEP, ONLINE, POWER_CUT, POWER_ON, SOFT
from inflight.compat import sleep_ms

NAME = "unix"
ATTENDED = True  # a process has somebody who reads its exit status
JOURNAL_KB = 64
AGAIN = 75  # exit status after a deep sleep: the parent process restarts this one

_cause = None
_log = None
_private = False


def _text(path, most=512):
    # The first bytes of a small file; None if there is no such file.
    try:
        with open(path) as f:
            return f.read(most)
    except OSError:
        return None


def _make(folder):
    try:
        os.mkdir(folder)
    except OSError as e:
        if e.errno == ENOENT:
            _make(folder.rpartition("/")[0])
            _make(folder)
        elif e.errno != EEXIST:
            raise


def _keep_private():
    # Files of the device are its owner's alone from the moment in which they are made: the configuration, also when a
    # command changes it, and the messages in the journal.
    global _private
    _private = True
    umask = getattr(os, "umask", None)
    try:
        if not umask:
            import ffi

            umask = ffi.open(None).func("i", "umask", "i")
        umask(0o077)
    except (ImportError, OSError):
        pass  # MicroPython without ffi


def home():
    if not _private:
        _keep_private()
    folder = os.getenv("INFLIGHT_HOME") or "%s/.inflight/%s" % (os.getenv("HOME") or "/tmp", device_id())
    if folder[0] != "/":
        folder = os.getcwd() + "/" + folder
    _make(folder)
    return folder


def config_path():
    return home() + "/config.json"


# --- identity, reset, sleep ---


def device_id():
    own = os.getenv("INFLIGHT_DEVICE_ID")
    if own:
        return own
    for name in sorted(os.listdir("/sys/class/net")):
        # Only hardware addresses: those of virtual interfaces may change.
        folder = "/sys/class/net/%s/" % name
        address = (_text(folder + "address") or "").strip().replace(":", "")
        if len(address) == 12 and _text(folder + "addr_assign_type") == "0\n" and _text(folder + "device/uevent"):
            return address
    return (_text("/etc/machine-id") or "000000000000")[:12]


def _note(cause):
    with open(home() + "/next-start", "w") as f:
        f.write(cause)


def _goodbye():
    # An orderly exit; after a deep sleep the file contains that already.
    path = home() + "/next-start"
    if _text(path) == POWER_CUT:
        os.remove(path)


def reset_cause():
    # While it runs, the file contains the reset cause that a kill would have.
    global _cause
    if _cause is None:
        note = _text(home() + "/next-start")
        _cause = POWER_ON if note is None else note or POWER_CUT
        if _cause not in (DEEP_SLEEP, SOFT):
            try:
                os.remove(home() + "/remembered")
            except OSError:
                pass  # nothing was
        _note(POWER_CUT)
        at_exit = getattr(sys, "atexit", None) or __import__("atexit").register
        at_exit(_goodbye)
    return _cause


def sleep(ms, deep=False):
    if deep:
        _note(DEEP_SLEEP if ms else SOFT)
    sleep_ms(ms)
    if deep:
        sys.exit(AGAIN)


def remember(data):
    if len(data) > 24:
        raise ValueError("remember: 24 bytes at most")
    reset_cause()  # discards data that a board would have lost
    with open(home() + "/remembered", "wb") as f:
        f.write(data)


def recall():
    reset_cause()
    try:
        with open(home() + "/remembered", "rb") as f:
            return f.read() or None
    except OSError:
        return None


def watchdog(ms):
    pass  # the process supervisor handles a process that hangs


def stop_watchdog():
    pass


# --- network and clock, managed by the operating system ---


class _Network:
    # As the operating system has set it up.

    def setup(self, config):
        pass

    def join(self, timeout_ms, ssid=None, key=None):
        return ONLINE

    def status(self):
        return ONLINE

    def rssi(self):
        lines = (_text("/proc/net/wireless") or "").split("\n")
        return int(float(lines[2].split()[3])) if len(lines) > 3 else None

    def off(self, ms=0):
        pass


_network = _Network()


def network(fields=None):
    return _network


def sync_time(host=None, within=None):
    return True


# --- flash ---


def journal_flash(kb=64):
    from inflight.flash.flash import FileFlash

    class File(FileFlash):
        def grow(self, journal, n):
            # As PinnedFlash.grow().
            from inflight.arguments import number
            from inflight.flash.flash import sync_folder
            from inflight.journal.copying import copy_journal

            number("n", n, 0, 255)
            for name in (larger, larger + ".new"):  # its copy was not finished
                if _size(name) is not None:
                    os.remove(name)
            disk = os.statvfs(home())
            if n <= self.ioctl(4, 0) or disk[4] * disk[1] < n * 4096:
                return self, journal
            try:
                flash = File(larger, blocks=n)
            except OSError:
                return self, journal  # a quota
            journal = copy_journal(journal, flash)
            os.rename(larger, path)
            sync_folder(path)
            self.close()
            return flash, journal

    path = home() + "/journal.bin"
    larger = home() + "/journal.larger"
    return File(path, blocks=(_size(path) or kb * 1024) // 4096)


def _size(path):
    # Bytes of a file, None if there is none.
    try:
        return os.stat(path)[6]
    except OSError as e:
        if e.errno != ENOENT:
            raise
        return None


# --- sensors ---


def _load():
    return float(_text("/proc/loadavg").split()[0])


def _memory():
    return int(_text("/proc/meminfo").split("MemAvailable:")[1].split()[0]) * 1024


def _temperature():
    text = _text("/sys/class/thermal/thermal_zone0/temp")
    return int(text) / 1000 if text else None


def _uptime():
    return float(_text("/proc/uptime").split()[0])


_SENSORS = (
    ("load", "/", _load),
    ("memory", "B", _memory),
    ("temperature", "Cel", _temperature),
    ("uptime", "s", _uptime),
)


def sensors():
    from probe import readings

    return readings(_SENSORS)


# --- for tests ---


def accepted(seq, qos, topic):
    # One unbuffered write per line: SIGKILL loses the line being written at most.
    global _log
    path = os.getenv("INFLIGHT_ACCEPTED_LOG")
    if path:
        _log = _log or open(path, "ab", 0)
        _log.write(("%d %d %s\n" % (seq, qos, topic)).encode())

"""Shared by the fakes of MicroPython's ports: a clock that only sleeping advances, access points, a station, starting
a board. A fake chip records the calls that it receives in `did`; start() starts its interpreter."""

import gc
import sys

import codes
from inflight.compat import ticks_add, ticks_diff
from network_fields import check_network

PWRON_RESET, HARD_RESET, WDT_RESET, DEEPSLEEP_RESET, SOFT_RESET = 1, 2, 3, 4, 5

if not hasattr(gc, "mem_free"):
    gc.mem_free = lambda: 150_000


class Module:
    """Replaces a module in sys.modules that this interpreter does not have."""

    def __init__(self, **names):
        for name in names:
            setattr(self, name, names[name])


class Clock:
    """Sleeping advances the time, and runs scheduled events."""

    def __init__(self):
        self.now = 1_000_000
        self._due = []

    def at(self, ms, what, *args):
        """Schedules what(*args) in `ms`."""
        self._due.append((self.now + ms, what, args))

    def ticks_ms(self):
        return self.now

    def sleep_ms(self, ms):
        end = self.now + ms
        while self._due:
            i = min(range(len(self._due)), key=lambda i: self._due[i][0])
            if self._due[i][0] > end:
                break
            self.now, what, args = self._due.pop(i)
            what(*args)
        self.now = end


class AccessPoint:
    """`answers`: it has a working DHCP server. `refuses`: the port's status code with which it refuses stations, or
    None."""

    def __init__(self, ssid="attic", key="secret-key", bssid=b"\x02\0\0\0\0\x01", channel=6, rssi=-60):
        self.ssid = ssid
        self.key = key
        self.bssid = bssid
        self.channel = channel
        self.rssi = rssi
        self.answers = True
        self.refuses = None


class Restart(BaseException):
    """The board restarts; the test performs the next start. No handler of the board catches it."""


def install(**modules):
    """Replaces these modules for imports."""
    for name in modules:
        sys.modules[name] = modules[name]


_MODULES = ("board", "power", "radio", "wifi", "ethernet", "connectivity", "clock")
_MODULES += ("setup_board", "setup_wifi", "setup_wired", "wake_pin", "supply")


def load(folder, clock):
    """Imports the board in boards/`folder` like a new interpreter."""
    for name in _MODULES:
        if name in sys.modules:
            del sys.modules[name]
    sys.path.insert(0, codes.__file__.rsplit("/", 2)[0] + "/" + folder)  # stays: a board imports some modules late
    import power
    import radio

    import board
    import connectivity
    import ethernet
    import wifi

    for module in (board, power, radio, wifi, ethernet, connectivity):
        for name in ("ticks_ms", "sleep_ms"):
            if hasattr(module, name):
                setattr(module, name, getattr(clock, name))
    return board


def load_trial(chip):
    """Imports the module trial of the chip's board, which starts for a release that is tried."""
    sys.modules.pop("trial", None)
    import trial

    trial.time = Module(ticks_ms=chip.clock.ticks_ms, ticks_add=ticks_add, ticks_diff=ticks_diff)
    return trial


class WLAN:
    """The behaviour of a station that all ports share. A port adds start() (attempt `attempt` begins), lost(code) (it
    failed, or the connection was lost), and status()."""

    PM_NONE = 0
    PM_PERFORMANCE = 1
    settings = ("pm", "txpower")
    says = None  # a wrong status code to report
    broken = False  # every call of the driver fails
    static = wanted = None
    slow = 1000  # response time of the access point in ms

    def __init__(self, chip):
        self.chip = chip
        self.clock = chip.clock
        self.did = chip.did
        self.set = {}
        self.attempt = 0  # events of earlier attempts are ignored
        self.up = False
        self.leave()

    def leave(self):
        self.attempt += 1
        self.access_point = self.address = None

    def active(self, on=None):
        if on is None:
            return self.up
        self.did.append("active" if on else "inactive")
        self.up = bool(on)
        if not on:
            self.leave()

    def isconnected(self):
        return self.address is not None

    def ifconfig(self, address=None):
        if address is None:
            return (self.address or "0.0.0.0", "255.255.255.0", "192.168.4.1", "192.168.4.1")
        self.static = address

    def config(self, what=None, **given):
        if what is not None:
            return self.tell(what)
        for name in given:
            if name not in self.settings:
                raise ValueError("unknown config param")
        self.set.update(given)

    def rssi(self):
        if not self.access_point or self.broken:
            raise OSError("not connected")
        return self.access_point.rssi

    def begin(self, ssid, key, **more):
        """Joins the first matching access point."""
        if self.broken:
            raise OSError("Wifi Internal Error")
        self.did.append(("connect", ssid, more))
        self.wanted = ssid, key, more.get("bssid")
        self.clock.at(self.slow, self.arrive, self.attempt)

    def arrive(self, attempt):
        if attempt != self.attempt:
            return
        ssid, key, bssid = self.wanted
        for ap in self.chip.air:
            if ap.ssid == ssid and bssid in (None, ap.bssid):
                break
        else:
            return self.lost(self.NO_AP)
        if ap.refuses or ap.key != key:
            return self.lost(ap.refuses or self.WRONG_KEY)
        self.access_point = ap
        if self.static:
            self.address = self.static[0]
        else:
            self.clock.at(self.slow, self.ask_for_address, attempt)

    def ask_for_address(self, attempt):
        if attempt != self.attempt:
            return
        if self.access_point.answers:
            self.address = "192.168.4.2"
        else:
            self.clock.at(self.slow, self.ask_for_address, attempt)


class OwnAccessPoint:
    """The interface with which a board is an access point itself. A port says in `early` whether it takes settings
    before it is active, or after."""

    def __init__(self, early):
        self.early = early
        self.up = False
        self.settings = {"ssid": "MicroPython-123456"}
        self.air = None  # what stations see

    def active(self, on=None):
        self.up = on
        self.air = dict(self.settings) if on else None

    def config(self, **given):
        if self.up:
            if not self.early:
                self.air.update(given)
        elif not self.early:
            raise OSError("Wifi Invalid Mode")
        self.settings.update(given)

    def ifconfig(self):
        return ("192.168.4.1" if self.up else "0.0.0.0", "255.255.255.0", "192.168.4.1", "192.168.4.1")


class Watchdog:
    """machine.WDT. Restarts the chip unless it is fed."""

    def __init__(self, chip, timeout):
        self.chip = chip
        self.timeout = timeout
        chip.did.append(("watchdog", timeout))
        self.feed()

    def feed(self):
        self.chip.fed = self.chip.clock.now  # there is one watchdog
        self.chip.clock.at(self.timeout, self.bite)

    def bite(self):
        if self.chip.clock.now - self.chip.fed >= self.timeout:
            self.chip.did.append("bite")
            raise Restart


class Ntp:
    """An NTP server behind `module`, a module `socket`. `answers`: seconds since 1970, (seconds, leap indicator,
    stratum), bytes or exceptions, one for each query."""

    def __init__(self):
        self.answers = []
        self.asked = []
        self.open = 0
        self.module = Module(AF_INET=2, SOCK_DGRAM=2, getaddrinfo=self.getaddrinfo, socket=self.socket)

    def getaddrinfo(self, host, port):
        self.host = host
        return [(2, 2, 0, "", ("192.168.4.1", port))]

    def socket(self, family, kind):
        self.open += 1
        return self

    def settimeout(self, seconds):
        self.timeout = seconds

    def sendto(self, query, address):
        assert query[0] == 0x1B and len(query) == 48 and address == ("192.168.4.1", 123)
        self.asked.append((self.host, self.timeout))

    def recv(self, most):
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else ntp_answer(*answer if isinstance(answer, tuple) else (answer,))

    def close(self):
        self.open -= 1


def ntp_answer(seconds, leap=0, stratum=2, mode=4):
    """The 48 bytes of an NTP server at this time since 1970."""
    head = bytes([leap << 6 | 4 << 3 | mode, stratum])
    return head + bytes(38) + ((seconds + 2_208_988_800) & 0xFFFFFFFF).to_bytes(4, "big") + b"abcd"


class _Get:
    # network.WLAN of a port with one station, and an access point of its own.

    def __init__(self, wlan, own):
        self.wlan = wlan
        self.own = own
        self.PM_NONE = wlan.PM_NONE
        self.PM_PERFORMANCE = wlan.PM_PERFORMANCE

    def __call__(self, interface):
        return self.own if interface == Network.AP_IF else self.wlan


class Network:
    """The module `network` of a port."""

    STA_IF = 0
    AP_IF = 1
    AUTH_OPEN = 0
    AUTH_WPA2_PSK = 3

    def __init__(self, wlan, own):
        self.WLAN = _Get(wlan, own)
        self.name = "mpy"
        self.code = "XX"
        self.name_server = None

    def ipconfig(self, *, dns):
        self.name_server = dns

    def hostname(self, name):
        if len(name) > 32:
            raise ValueError
        self.name = name

    def country(self, code):
        if len(code) != 2:
            raise ValueError
        self.code = code


class Chip:
    """What the chips of all ports have. `air`: the access points in range."""

    def __init__(self, air):
        self.air = list(air)
        self.did = []
        self.start()

    def begin(self, station, early):
        """A start: a new interpreter, with this station and an access point that is configured `early`."""
        del self.did[:]
        self.clock = Clock()
        self.wlan = station(self)
        self.own = OwnAccessPoint(early)
        self.network = Network(self.wlan, self.own)
        self.ntp = Ntp()
        self.date = None

    def set_date(self, date):
        self.date = date


def outcome(chip, ms=60_000):
    """The status of the board's network when connecting has ended, or after `ms`."""
    end = chip.clock.now + ms
    while chip.board.network().status() == codes.CONNECTING and chip.clock.now < end:
        chip.clock.sleep_ms(100)
    return chip.board.network().status()


def dials(chip):
    """The attempts to connect since it started."""
    return [what for what in chip.did if what[0] == "connect"]


def set_up(chip, **fields):
    """The board's network gets these fields of a configuration."""
    config = Module(hostname=None)
    check_network(dict(fields, wifi_ssid="attic"), config, ValueError)
    chip.board.network().setup(config)


def vanish(chip, ap):
    """The access point disappears; the station notices after some missing beacons."""
    chip.air.remove(ap)
    if chip.wlan.access_point is ap:
        chip.clock.at(6000, chip.wlan.lost, chip.wlan.GONE)


def stops(chip, fn, *args):
    """fn(*args) must restart the chip. Returns the calls that the chip received meanwhile."""
    del chip.did[:]
    try:
        fn(*args)
    except Restart:
        return list(chip.did)
    raise AssertionError("%r returned" % fn)

"""What fakes of MicroPython's ports share: a clock that only tests move, the air, and a way to start a board."""

import sys

import codes


class Module:
    """Stands in sys.modules for a module that this interpreter has not."""

    def __init__(self, **names):
        for name in names:
            setattr(self, name, names[name])


class Clock:
    """Time passes when somebody sleeps."""

    now = 1_000_000

    def ticks_ms(self):
        return self.now

    def sleep_ms(self, ms):
        self.now += ms


class AccessPoint:
    """One on the air. `answers`: it has a DHCP server that works."""

    def __init__(self, ssid="attic", key="secret-key", bssid=b"\x02\0\0\0\0\x01", channel=6, rssi=-60):
        self.ssid = ssid
        self.key = key
        self.bssid = bssid
        self.channel = channel
        self.rssi = rssi
        self.answers = True


class Restart(BaseException):
    """The board is starting again. Code that catches exceptions does not stop that."""


def install(**modules):
    """These modules are what an import finds from now on."""
    for name in modules:
        sys.modules[name] = modules[name]


def load(folder, clock):
    """Imports the board in boards/`folder` as if its interpreter had just started."""
    for name in ("board", "wifi", "clock"):
        if name in sys.modules:
            del sys.modules[name]
    sys.path.insert(0, codes.__file__.rsplit("/", 2)[0] + "/" + folder)
    try:
        import board
    finally:
        sys.path.pop(0)
    for module in (board, sys.modules["wifi"]):
        for name in ("ticks_ms", "sleep_ms"):
            if hasattr(module, name):
                setattr(module, name, getattr(clock, name))
    return board


class WLAN:
    """A station, as far as ports agree. `air`: the access points there are. What the driver does when is in
    `_events`, (time, what) pairs."""

    PM_NONE = 0
    settings = ("pm",)

    def __init__(self, clock, air):
        self.clock = clock
        self.air = air
        self.did = []  # what was asked of it, in order
        self.config_set = {}
        self.up = False
        self.access_point = None  # that it is associated with
        self.address = None
        self._events = []

    def at(self, ms, what, *args):
        self._events.append((self.clock.now + ms, what, args))

    def happen(self):
        while self._events and self._events[0][0] <= self.clock.now:
            _, what, args = self._events.pop(0)
            what(*args)

    def active(self, on=None):
        self.happen()
        if on is None:
            return self.up
        self.did.append("active" if on else "inactive")
        self.up = on
        if not on:
            self.access_point = self.address = None
            self._events = []

    def isconnected(self):
        self.happen()
        return self.address is not None

    def ifconfig(self, address):
        self.static = address

    def config(self, what=None, **given):
        if what is not None:
            return self.tell(what)
        for name in given:
            if name not in self.settings:
                raise ValueError("unknown config param")
        self.config_set.update(given)

    def find(self, ssid, bssid):
        """The first access point that may be meant: a scan that ends at the first match."""
        for ap in sorted(self.air, key=lambda ap: ap.channel):
            if ap.ssid == ssid and bssid in (None, ap.bssid):
                return ap
        return None

    def associate(self, ap):
        self.access_point = ap
        if self.static:
            self.address = self.static[0]
        elif ap.answers:
            self.at(1000, self.give_address)

    static = None

    def give_address(self):
        self.address = "192.168.4.2"


def network(wlan):
    """The module `network` of a port that has this one WLAN."""

    def hostname(name=None):
        if name is None:
            return module.name
        if len(name) > 32:
            raise ValueError
        module.name = name

    def country(code=None):
        if code is None:
            return module.code
        if len(code) != 2:
            raise ValueError
        module.code = code

    def get(interface):
        return wlan

    get.PM_NONE = wlan.PM_NONE
    module = Module(STA_IF=0, WLAN=get, hostname=hostname, country=country, name="mpy", code="XX")
    return module


def outcome(board, wanted, clock, limit=60_000):
    """Asks for the status until it is not `wanted` any more, but for `limit` ms at most. Returns it."""
    end = clock.now + limit
    while board.wifi_status() == wanted and clock.now < end:
        clock.sleep_ms(100)
    return board.wifi_status()

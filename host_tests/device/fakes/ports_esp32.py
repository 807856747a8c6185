"""A fake of the parts of MicroPython's esp32 port that boards/esp32 uses."""

from ports import PWRON_RESET, WLAN, Chip, Module, Restart, Watchdog, install, load


class Station(WLAN):
    """Like the driver, it reports the effect of disconnect() by a later event."""

    NO_AP = 201
    WRONG_KEY = 202
    GONE = 200
    settings = ("pm", "txpower", "reconnects")
    reason = 0
    connecting = requested = False
    tries = 0

    def connect(self, ssid, key, *, bssid=None):
        more = {"bssid": bssid} if bssid else {}
        self.dial(ssid, key, more)

    def dial(self, ssid, key, more):
        if not self.up:
            raise OSError("Wifi Not Started")
        if self.connecting:
            raise OSError("Wifi Internal State Error")
        if 0 < len(key) < 8:
            raise OSError("Wifi Invalid Password")
        self.begin(ssid, key, **more)
        self.tries = 0
        self.connecting = self.requested = True

    def arrive(self, attempt):
        WLAN.arrive(self, attempt)
        if self.access_point:
            self.connecting = False

    def lost(self, reason):
        self.leave()
        self.connecting = False
        self.event(reason)

    def event(self, reason):
        self.reason = reason
        self.tries += 1
        if self.up and self.requested and not self.gives_up():
            self.connecting = True
            self.clock.at(self.slow, self.arrive, self.attempt)

    def gives_up(self):
        return 0 <= self.set.get("reconnects", -1) < self.tries

    def disconnect(self):
        if not self.up:
            raise OSError("Wifi Not Started")
        self.did.append("disconnect")
        self.requested = False
        if self.connecting or self.access_point:
            self.connecting = False
            self.attempt += 1
            self.clock.at(10, self.left)

    def left(self):
        if self.access_point:
            self.access_point = self.address = None
        self.event(8)

    def active(self, on=None):
        busy = self.connecting or self.access_point
        was = WLAN.active(self, on)
        if not self.up and busy:
            self.connecting = False
            self.event(8)
        return was

    def status(self, what=None):
        if what == "rssi":
            return self.rssi()
        if self.says is not None:
            return self.says
        if self.address:
            self.reason = 0
            return 1010
        if self.requested and not self.gives_up():
            return 1001
        return self.reason or 1000

    def tell(self, what):
        return {"channel": self.access_point and self.access_point.channel}[what]

    def scan(self):
        if self.connecting or self.broken:
            raise OSError("Wifi Internal State Error")
        self.did.append("scan")
        return [(ap.ssid.encode(), ap.bssid, ap.channel, ap.rssi, 3 if ap.key else 0, False) for ap in self.chip.air]


class StationWithChannel(Station):
    """The station of a firmware whose connect() has the argument `channel`."""

    def connect(self, ssid, key, *, bssid=None, channel=0):
        self.dial(ssid, key, {"bssid": bssid, "channel": channel} if bssid else {})


class Partition:
    """A partition of the flash."""

    TYPE_DATA = 1
    parts = {}

    def __init__(self, device, encrypted=False):
        self.readblocks = device.readblocks
        self.writeblocks = device.writeblocks
        self.ioctl = device.ioctl
        self.encrypted = encrypted

    def info(self):
        return (1, 6, 0x3F0000, 0x10000, "any", self.encrypted)

    @staticmethod
    def find(type=0, subtype=0xFF, label=None):
        return [Partition.parts[label]] if type == 1 and label in Partition.parts else []


class Pin:
    """A pin, as machine has it."""

    IN = 1
    level = 0

    def __init__(self, number, *how):
        if not 0 <= number < 40:
            raise ValueError("invalid pin")
        self.number = number
        self.how = how

    def value(self):
        assert self.how == (Pin.IN,), "after a deep sleep it reads as 0"
        return Pin.level


class Esp32(Chip):
    """`kept`: its RTC memory. `inside`: the module esp32. `ext0`, `ext1`: pins that
    end the sleep, and their levels. `woken`: why it woke, as the port says it."""

    ext0 = ext1 = None
    woken = 0

    def __init__(self, *air, station=Station):
        self.kept = b""
        self.station = station
        self.inside = Module(
            mcu_temperature=lambda: 31,
            Partition=Partition,
            wake_on_ext0=self.wake_on_ext0,
            wake_on_ext1=self.wake_on_ext1,
        )
        self.mem32 = {}  # registers
        super().__init__(air)

    def start(self, cause=PWRON_RESET):
        """Starts it with the port's reset cause `cause`."""
        self.begin(self.station, False)
        self.dog = None
        machine = Module(
            unique_id=lambda: b"\x24\x0a\xc4\x12\x34\x56",
            reset_cause=lambda: cause,
            RTC=lambda: Module(memory=self.memory, datetime=self.set_date),
            WDT=self.watchdog,
            deepsleep=lambda ms: self.stop("deepsleep", ms),
            reset=lambda: self.stop("reset"),
            lightsleep=self.lightsleep,
            mem32=self.mem32,
            PWRON_RESET=1,
            HARD_RESET=2,
            WDT_RESET=3,
            DEEPSLEEP_RESET=4,
            SOFT_RESET=5,
            Pin=Pin,
            wake_reason=lambda: self.woken,
            EXT0_WAKE=2,
            EXT1_WAKE=3,
        )
        install(machine=machine, network=self.network, esp32=self.inside, socket=self.ntp.module)
        self.board = load("esp32", self.clock)
        return self.board

    def watchdog(self, timeout):
        # There is one; making it again changes its time-out.
        if self.dog:
            self.dog.timeout = timeout
            self.dog.feed()
        else:
            self.dog = Watchdog(self, timeout)
        return self.dog

    def wake_on_ext0(self, pin, level):
        self.ext0 = (_rtc(pin), level) if pin else None

    def wake_on_ext1(self, pins, level):
        self.ext1 = ([_rtc(pin) for pin in pins], level) if pins else None

    def stop(self, *how):
        self.did.append(how)
        raise Restart

    def lightsleep(self, ms):
        self.did.append(("lightsleep", ms))
        self.clock.sleep_ms(ms)

    def memory(self, data=None):
        if data is None:
            return self.kept
        if len(data) > 2048:
            raise ValueError("buffer too long")
        self.kept = bytes(data)


def _rtc(pin):
    if pin.number not in (0, 2, 4, 12, 13, 14, 15, 25, 26, 27) and pin.number < 32:
        raise ValueError("invalid pin")
    return pin.number

"""A fake of the parts of MicroPython's rp2 port that boards/rp2040 uses: the chip and its Wi-Fi chip."""

from ports import PWRON_RESET, WDT_RESET, WLAN, Chip, Module, Restart, Watchdog, install, load

CHIP_ID = 0x40000000
_ENABLE = 1 << 30


class Station(WLAN):
    NO_AP = -2
    WRONG_KEY = -3
    GONE = 0
    state = 0  # state or result of the last attempt

    security = None

    def connect(self, ssid, key, *, security=None, bssid=None, channel=0):
        if not self.up:
            raise OSError(1)
        self.security = security
        self.state = 1
        self.begin(ssid, key, **({"bssid": bssid, "channel": channel} if bssid else {}))

    def lost(self, code):
        self.leave()
        self.state = code

    def disconnect(self):
        self.did.append("disconnect")
        self.lost(0)

    def deinit(self):
        self.did.append("deinit")

    def scan(self):
        self.did.append("scan")
        return [(ap.ssid.encode(), ap.bssid, ap.channel, ap.rssi, 5 if ap.key else 0, 1) for ap in self.chip.air]

    def status(self, what=None):
        if what == "rssi":
            return self.rssi()
        if self.says is not None:
            return self.says
        return 3 if self.address else 2 if self.access_point else self.state

    def tell(self, what):
        here = self.access_point
        return {"mac": self.chip.mac if self.up else bytes(6), "channel": here and here.channel}[what]


class Registers:
    """machine.mem32 with the registers that a board may access: chip id, watchdog, the pad of pin 29."""

    charged = False  # pin 29 was an output: the next reading is wrong

    def __init__(self, rp2350=False):
        self.dog = 0x400D8000 if rp2350 else 0x40058000
        self.pad = (0x40038000 if rp2350 else 0x4001C000) + 0x78
        self.words = {CHIP_ID: 0x10004927 if rp2350 else 0x20002927, self.dog: 0, self.pad: 0x56}
        self.words[0x4010002C] = 0  # RP2350: why it was reset
        for i in range(8):
            self.words[self.scratch(i)] = 0

    def scratch(self, i):
        return self.dog + 0x0C + 4 * i

    def __getitem__(self, at):
        return self.words[at]

    def __setitem__(self, at, value):
        if not 0 <= value < 1 << 32:
            raise OverflowError
        if at == self.dog + 0x3000:
            self.words[self.dog] &= ~value
        elif at in self.words:
            self.words[at] = value
            self.charged = self.charged or at == self.pad
        else:
            raise KeyError(hex(at))


class WatchdogTimer(Watchdog):
    """The watchdog: its counter has 24 bits and counts half microseconds."""

    def __init__(self, chip, timeout):
        if timeout > 8388:
            raise ValueError("timeout exceeds 8388")
        chip.mem32[chip.mem32.dog] |= _ENABLE
        chip.mem32[chip.mem32.scratch(4)] = 0x6AB73121
        Watchdog.__init__(self, chip, timeout)

    def bite(self):
        if self.chip.mem32[self.chip.mem32.dog] & _ENABLE:
            Watchdog.bite(self)


class Rp2040(Chip):
    """`volts`: the converter's reading of each channel. `nap`: the longest light sleep."""

    def __init__(self, *air, rp2350=False):
        self.mem32 = Registers(rp2350)
        self.mac = b"\x28\xcd\xc1\x12\x34\x56"
        self.volts = {4: 0.706, 3: 5 / 3}
        self.nap = 3_600_000
        self.irq = True
        self.flash = None
        self.kept = None  # what is in the one file that the board has
        super().__init__(air)

    def start(self, cause=PWRON_RESET):
        """Starts it with the port's reset cause `cause`."""
        self.begin(Station, True)
        self.mem32[self.mem32.dog] = 0

        class ADC(_ADC):
            chip = self

        class Timer(_Timer):
            chip = self

        machine = Module(
            unique_id=lambda: b"\xe6\x60\x01\x02\x03\x04\x05\x06",
            reset_cause=lambda: cause,
            mem32=self.mem32,
            RTC=lambda: Module(datetime=self.set_date),
            WDT=lambda timeout: WatchdogTimer(self, timeout),
            Timer=Timer,
            ADC=ADC,
            disable_irq=self.disable_irq,
            enable_irq=self.enable_irq,
            reset=self.reset,
            lightsleep=self.lightsleep,
            PWRON_RESET=PWRON_RESET,
            WDT_RESET=WDT_RESET,
        )
        rp2 = Module(Flash=lambda: self.flash)
        install(machine=machine, network=self.network, rp2=rp2, socket=self.ntp.module)
        self.board = load("rp2040", self.clock)
        import radio

        radio.open = self.open
        return self.board

    def open(self, path, mode):
        return _File(self, mode)

    def reset(self):
        self.did.append("reset")
        self.mem32[self.mem32.scratch(4)] = 0
        raise Restart

    def lightsleep(self, ms):
        self.did.append(("lightsleep", ms))
        if ms * 1000 >> 32:
            raise ValueError("sleep too long")
        self.clock.sleep_ms(min(ms, self.nap))

    def disable_irq(self):
        was = self.irq
        self.irq = False
        return was

    def enable_irq(self, was):
        self.irq = was


class _File:
    def __init__(self, chip, mode):
        self.chip = chip
        if mode == "rb" and chip.kept is None:
            raise OSError(2)

    def __enter__(self):
        return self

    def __exit__(self, *what):
        pass

    def read(self):
        return self.chip.kept

    def write(self, data):
        self.chip.kept = bytes(data)


class _ADC:
    CORE_TEMP = 4

    def __init__(self, channel):
        self.channel = channel

    def read_u16(self):
        chip = self.chip
        volts = chip.volts[self.channel]
        if isinstance(volts, Exception):
            raise volts
        if self.channel == 3:
            if chip.irq or chip.mem32[chip.mem32.pad] != 0x80:
                return 0  # pin 29 is an output
            if chip.mem32.charged:
                chip.mem32.charged = False
                return 0x5555
        return round(volts / 3.3 * 65535)


class _Timer:
    PERIODIC = 1

    def __init__(self, number, *, period, mode, callback):
        self.period = period
        self.callback = callback
        self.again()

    def again(self):
        self.chip.clock.at(self.period, self.fire)

    def fire(self):
        if self.callback:
            self.callback(self)
            self.again()

    def deinit(self):
        self.callback = None

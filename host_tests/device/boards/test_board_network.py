"""Wi-Fi and clock, with a fake of each port: behaviour that all boards share."""

import time

from codes import CONNECTING, FAILED, IDLE, NO_ADDRESS, NO_AP, ONLINE, WRONG_KEY
from harness import eq
from ports import AccessPoint, Module, install, ntp_answer, outcome, set_up
from ports_esp32 import Esp32
from ports_rp2040 import Rp2040
from scratch import Replaced

RUNTIMES = "cpython micropython-x86"
CHIPS = (Esp32, Rp2040)
KEY = "secret-key"
OUTCOMES = (  # of connecting to "attic" and, without DHCP, "cellar"
    ("attic", "wrong-key", WRONG_KEY),
    ("nowhere", KEY, NO_AP),
    ("cellar", KEY, NO_ADDRESS),
    ("attic", KEY, ONLINE),
)
REFUSALS = {  # status codes of refused connections by port
    Esp32: {FAILED: (2, 39, 203), WRONG_KEY: (14, 15, 23, 202, 204, 205), NO_AP: (200, 201, 210, 211, 212)},
    Rp2040: {FAILED: (-1,), NO_AP: (-2,), WRONG_KEY: (-3,)},
}
STATES = {
    Esp32: ((1000, IDLE), (8, IDLE), (1001, CONNECTING), (1010, ONLINE)),
    Rp2040: ((0, IDLE), (1, CONNECTING), (2, CONNECTING), (3, ONLINE)),
}


def online(new):
    """A chip with a Wi-Fi connection."""
    chip = new(AccessPoint())
    eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
    return chip


def silent(ssid="attic"):
    """An access point without DHCP."""
    ap = AccessPoint(ssid)
    ap.answers = False
    return ap


# --- status codes ---


def test_every_status_code_has_a_word():
    """That of a refusal stays."""
    for new in CHIPS:
        for code, word in STATES[new]:
            chip = online(new)
            chip.wlan.says = code
            eq((code, chip.board.network().status()), (code, word))
        for word, codes in REFUSALS[new].items():
            for code in codes:
                chip = new(AccessPoint())
                chip.air[0].refuses = code
                eq((code, chip.board.network().join(10_000, "attic", KEY)), (code, word))
                chip.clock.sleep_ms(60_000)
                eq(chip.board.network().status(), word)


# --- waiting ---


def test_without_a_time_out_connecting_returns_at_once():
    """With one it returns the outcome."""
    for new in CHIPS:
        chip = new(AccessPoint(), silent("cellar"))
        eq(chip.board.network().join(10_000, "attic", "short"), WRONG_KEY)
        for ssid, key, word in OUTCOMES:
            before = chip.clock.now
            eq(chip.board.network().join(0, ssid, key), CONNECTING)
            assert chip.clock.now - before <= 1_500  # to leave the other network
            eq((outcome(chip), chip.board.network().join(10_000, ssid, key)), (word, word))


def test_connecting_ends_with_the_time_out():
    """An address that comes later is accepted."""
    for new in CHIPS:
        for ms, word in ((300, FAILED), (5_000, NO_ADDRESS)):
            chip = new(silent())
            before = chip.clock.now
            eq(chip.board.network().join(ms, "attic", KEY), word)
            assert ms <= chip.clock.now - before <= ms + 20
        eq(chip.board.network().status(), NO_ADDRESS)
        chip.air[0].answers = True
        chip.clock.sleep_ms(2_000)
        eq(chip.board.network().status(), ONLINE)


def test_waits_for_a_lost_address():
    for new in CHIPS:
        chip = online(new)
        chip.clock.sleep_ms(60_000)
        chip.wlan.address = None
        for _ in range(2):
            eq(chip.board.network().status(), CONNECTING)
            chip.clock.sleep_ms(9_000)
        eq(outcome(chip), NO_ADDRESS)
        chip.wlan.address = "192.168.4.3"
        eq(chip.board.network().status(), ONLINE)


# --- reconnecting ---


def test_status_of_an_earlier_attempt_is_ignored():
    for new in CHIPS:
        chip = new(AccessPoint())
        eq(chip.board.network().join(10_000, "attic", "wrong-key"), WRONG_KEY)
        chip.wlan.says = chip.wlan.WRONG_KEY  # some drivers report the earlier result at first
        eq(chip.board.network().join(0, "attic", KEY), CONNECTING)
        chip.clock.sleep_ms(4_000)
        eq(chip.board.network().status(), CONNECTING)
        chip.wlan.says = None
        eq(chip.board.network().status(), ONLINE)
        chip.wlan.says = chip.wlan.WRONG_KEY
        eq(chip.board.network().join(20_000, "attic", "wrong-key"), WRONG_KEY)  # the status stays


def test_driver_errors_are_not_raised():
    for new in CHIPS:
        chip = new(AccessPoint())
        chip.wlan.broken = True
        eq(chip.board.network().join(10_000, "attic", KEY), FAILED)
        eq((chip.board.network().status(), chip.board.network().rssi()), (FAILED, None))
        chip.wlan.broken = False
        eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
        chip.wlan.broken = True
        eq(chip.board.network().rssi(), None)


def test_pauses_between_leaving_and_connecting():
    """Connecting right after it disconnected, a port may fail again and again."""
    for new in CHIPS:
        chip = new(AccessPoint())
        chip.air[0].refuses = chip.wlan.WRONG_KEY
        before = chip.clock.now
        chip.board.network().join(0, "attic", KEY)
        eq(chip.clock.now - before, 0)  # there was nothing to leave
        eq(outcome(chip), WRONG_KEY)
        chip.air[0].refuses = None
        before = chip.clock.now
        chip.board.network().join(0, "attic", KEY)
        assert chip.clock.now - before >= 1_000
        eq(outcome(chip), ONLINE)


def hangs():
    raise OSError("Wifi Internal Error")


def test_the_radio_is_switched_off_and_joins_again():
    for new in CHIPS:
        chip = new(AccessPoint())
        eq((chip.board.network().status(), chip.board.network().rssi()), (IDLE, None))
        assert not chip.wlan.up or new is Rp2040  # its Wi-Fi chip tells who it is
        eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
        chip.board.network().off()
        eq((chip.wlan.up, chip.board.network().rssi()), (False, None))
        eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
        chip.wlan.disconnect = hangs
        chip.board.network().off()
        eq(chip.wlan.up, False)


# --- settings ---


def test_settings():
    """A country restarts the radio; power saving is off unless it is asked for."""
    address = ("192.168.1.20", "255.255.255.0", "192.168.1.1", "192.168.1.1")
    for new in CHIPS:
        chip = online(new)
        eq((chip.network.name, chip.network.code, chip.wlan.static), ("inflight-123456", "XX", None))
        eq((chip.wlan.set["pm"], chip.wlan.set.get("txpower")), (0, None))
        del chip.did[:]
        more = {"wifi_power_save": True, "wifi_txpower": 8.5}
        set_up(chip, hostname="attic-1", wifi_country="DE", wifi_ip=list(address), **more)
        eq(chip.board.network().join(10_000, "attic", KEY), ONLINE)
        eq((chip.did[:2], chip.network.code), (["inactive", "active"], "DE"))
        eq((chip.network.name, chip.wlan.static), ("attic-1", address))
        eq((chip.wlan.set["pm"], chip.wlan.set["txpower"]), (1, 8.5))
        set_up(chip)
        eq(chip.network.name, "inflight-123456")


def dialled(chip):
    return [what[1] for what in chip.did if what[0] == "connect"]


def test_several_networks_are_tried_by_signal():
    near, far = AccessPoint("cellar", rssi=-50), AccessPoint("attic", rssi=-80)
    more = [{"ssid": "hidden", "key": KEY}, {"ssid": "cellar", "key": KEY}]
    for timeout_ms in (0, 60_000):
        for new in CHIPS:
            chip = new(far, near)
            set_up(chip, wifi_networks=more)
            chip.board.network().join(timeout_ms, "attic", KEY)
            eq((outcome(chip), dialled(chip)), (ONLINE, ["cellar"]))
            near.refuses = chip.wlan.WRONG_KEY
            del chip.did[:]
            before = chip.clock.now
            chip.board.network().join(timeout_ms, "attic", KEY)
            assert chip.clock.now - before <= timeout_ms + 2_000  # they share it
            eq((outcome(chip), dialled(chip)), (ONLINE, ["cellar", "attic"]))
            near.refuses = None
            chip = new()
            set_up(chip, wifi_networks=more)
            chip.board.network().join(timeout_ms, "attic", KEY)
            eq((outcome(chip, 120_000), dialled(chip)), (NO_AP, ["attic", "hidden", "cellar"]))


def test_networks_that_do_not_fit_into_ram_hold_up_no_join():
    """A neighbour can announce hundreds: the scan fails then, and those of the configuration are tried in its order."""

    def scan():
        raise MemoryError

    for new in CHIPS:
        chip = new(AccessPoint("attic", rssi=-80), AccessPoint("cellar", rssi=-50))
        chip.wlan.scan = scan
        set_up(chip, wifi_networks=[{"ssid": "cellar", "key": KEY}])
        chip.board.network().join(60_000, "attic", KEY)
        eq((outcome(chip), dialled(chip)), (ONLINE, ["attic"]))


# --- the clock ---

BUILT = 1_700_000_000  # a Tuesday
LATER = BUILT + 5 * 86_400
DAY_OF_BUILD = (2023, 11, 14, 2, 22, 13, 20, 0)
LATER_DATE = (2023, 11, 19, 7, 22, 13, 20, 0)


def built(seconds=BUILT):
    """The firmware was built so many seconds after 1970."""
    install(built=Module(TIME=seconds))


def test_time_from_the_network():
    """It is not before the day of the build, nor before a known time: otherwise TLS refuses certificates that are not
    valid yet."""
    for new in CHIPS:
        chip = new()
        chip.ntp.answers = [BUILT]
        built()
        eq((chip.board.sync_time(), chip.date), (True, DAY_OF_BUILD))
        eq(chip.ntp.asked, [("pool.ntp.org", 1)])
        for host, answers, date in (
            ("ntp.example", [OSError("no answer"), LATER], LATER_DATE),
            ("ntp.example", [2_085_978_496 + 3_600], (2036, 2, 7, 4, 7, 28, 16, 0)),  # NTP counts from 0 again
        ):
            chip.ntp.answers = answers
            built()
            eq((chip.board.sync_time(host), chip.date), (True, date))
            eq((chip.ntp.asked[-1], chip.ntp.open), ((host, 1), 0))
        for answers in ([OSError(110)] * 2, [(315_532_800, 0, 10)] * 2, []):
            host = "ntp.example" if answers else False
            for known, day in ((None, 18), (2_000_086_400, 19), (BUILT, 18)):
                chip = new()
                chip.ntp.answers = answers[:]
                built(2_000_000_000)
                eq(chip.board.sync_time(host, known and (known - 900, known + 900)), False)
                eq(chip.date, (2033, 5, day, day - 15, 3, 33, 20, 0))
                eq(len(chip.ntp.asked), 2 if host else 0)


def test_a_time_that_the_board_has_not_is_refused():
    """2038 with 32 bits that begin in 1970."""
    of_32_bits = Module(gmtime=lambda t: time.gmtime((t + (1 << 31)) % (1 << 32) - (1 << 31)), time=time.time)
    chip = Esp32()
    chip.ntp.answers = [2_150_000_000] * 2
    built()
    with Replaced(__import__("clock"), time=of_32_bits, _EPOCH=0):
        eq((chip.board.sync_time(), chip.date), (False, None))


# No answer, or one that is none: of a server that is not synchronised, of a client, or a broadcast; an NTP timestamp of
# 0, which means no time, or one before the build.
WRONG = (OSError(-2), OSError(110), OverflowError(), b"", b"half an answer", ntp_answer(LATER)[:40])
WRONG += tuple([(LATER,) + rest for rest in ((3,), (3, 16), (0, 0), (0, 16), (0, 255), (0, 2, 3), (0, 2, 5))])
WRONG += ((-2_208_988_800,), (315_532_800, 0, 10), (946_684_800, 0, 2), (946_684_800, 3, 16), (BUILT - 1, 0, 2))


def test_failed_synchronisation_keeps_the_clock():
    for new in CHIPS:
        chip = new()
        for wrong in WRONG:
            chip.ntp.answers = [wrong] * 2
            built()
            eq((chip.board.sync_time(), chip.date, chip.ntp.answers), (False, None, []))
            chip.ntp.answers = [wrong, LATER]
            built()
            eq((chip.board.sync_time(), chip.date, chip.ntp.open), (True, LATER_DATE, 0))
            chip.date = None


def test_a_time_far_from_the_known_one_is_refused():
    for new in CHIPS:
        chip = new()
        within = LATER - 60, LATER + 60
        for wrong in (LATER - 61, LATER + 61, LATER + 3_600, LATER + (1 << 28), BUILT):
            for answers in ([wrong] * 2, [wrong, OSError(110)], [OSError(110), wrong]):
                chip.ntp.answers = answers[:]
                built()
                eq((chip.board.sync_time("ntp.example", within), chip.date, chip.ntp.answers), (None, None, []))
        for right in (LATER - 60, LATER, LATER + 60):
            chip.ntp.answers = [wrong, right]
            chip.date = None
            built()
            assert chip.board.sync_time("ntp.example", within) is True and chip.date, right
        chip.ntp.answers = [BUILT - 1] * 2  # one that is before the day of the build in any case
        chip.date = None
        built()
        eq((chip.board.sync_time("ntp.example", (0, LATER)), chip.date), (False, None))

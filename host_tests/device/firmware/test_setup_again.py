"""The set-up page of a device that has a configuration: when it opens, who may change what, how it ends."""

import json
import os

import config
import offline
import ram_board
import setup
import setup_again
import setup_radio
from codes import ONLINE, WRONG_KEY
from files import exists
from hardware import Pin, With
from harness import eq, raises
from inflight.compat import ticks_add, ticks_ms
from ports import Module
from scratch import Replaced, write
from setup_http import Request
from test_setup import PATH
from test_setup import Site as FirstSite

RUNTIMES = "cpython micropython-x86"
CODE = "the-set-up-code"
CONFIG = {
    "host": "broker.example",
    "user": "me",
    "password": "the-password",
    "wifi_ssid": "attic",
    "wifi_key": "the-old-key",
    "wifi_country": "DE",
    "sensors": [{"driver": "dht22", "pin": 4}],
    "setup": {"code": CODE},
}
GONE = b"gone" + (3600).to_bytes(2, "little")


class Restarted(BaseException):
    pass


class Radio(setup_radio.Radio):
    NETWORKS = [("attic", -60, True), ("cellar", -70, True)]


class Board(ram_board.Board):
    def __init__(self, memory=None):
        super().__init__(PATH + "config.json")
        self.memory = memory

    def sleep(self, ms, deep):
        eq((ms, deep), (0, True))
        raise Restarted


class Site(FirstSite):
    """A page that is open at the time 0, in `now` ms; text: the file of the configuration."""

    RADIO = Radio

    def __init__(self, *words, text=None):
        super().__init__(*words)
        self.text = text or json.dumps(CONFIG)

    def __enter__(self):
        super().__enter__()
        setup_again.ticks_ms = setup.ticks_ms
        write(PATH + "config.json", self.text)
        self.setup = setup_again.Again(Board(), self.radio, CODE)
        return self

    def __exit__(self, *how):
        super().__exit__(*how)
        setup_again.ticks_ms = setup.ticks_ms

    def request(self, method, path="/", fields=None):
        return super().request(method, path, fields)[1]

    def send(self, **fields):
        """Sends the form, waits for the outcome, and returns the page."""
        self.request("POST", fields=dict({"ssid": "attic", "key": "the-new-key", "code": CODE}, **fields))
        self.finish()
        return self.request("GET")


# --- the page ---


def test_the_network_changes_and_nothing_else():
    for ssid, key in (("attic", "the-new-key"), ("cellar", "another-key"), ("cellar", "")):
        with Site(ONLINE) as site:
            page = site.send(ssid=ssid, key=key)
            assert "Saved: the device restarts with the network %s" % ssid in page, page
            wanted = dict(CONFIG, wifi_ssid=ssid, wifi_key=key)
            if not key:
                del wanted["wifi_key"]
            eq(site.configuration, wanted)
            eq((site.radio.joins, site.radio.key), ([(ssid, key or None)], CODE))
            site.setup.sent()
            eq(site.setup.ends, 500)


def test_what_does_not_work_is_told_and_the_configuration_stays():
    with Site(WRONG_KEY, WRONG_KEY, ONLINE) as site:
        assert "The key of the network attic is wrong" in site.send(key="another-key")
        assert "Key: write 8 to 63 characters" in site.send(key="short")
        assert "Choose a network" in site.send(ssid="")
        site.request("POST", fields=None)
        assert "This is no form" in site.request("GET")
        eq(site.configuration, CONFIG)
        assert "Saved" in site.send()
        assert "Saved" in site.send(ssid="cellar")  # nothing can be changed any more
        eq(site.configuration["wifi_ssid"], "attic")
    with Site(ONLINE) as site:
        os.mkdir(PATH + "config.json.part")  # as if the flash were full
        assert "Error" in site.send()
        eq(site.configuration, CONFIG)


def test_without_the_code_nothing_is_shown_tried_or_changed():
    with Site() as site:
        site.request("POST", fields={"ssid": "attic", "key": "the-new-key"})
        assert "2 more" in site.request("GET") and not site.setup.busy
    with Site() as site:
        for code, note in (
            ("", "The code is wrong: 2 more can be tried"),
            (CODE[:-1], "The code is wrong: 1 more can be tried"),
            (CODE + "x", "The code is wrong: the page closes"),
        ):
            for page in (site.request("GET"), site.send(code=code)):
                for text in ("broker", "the-password", "the-old-key", "dht22", CODE, "selected"):
                    assert text not in page, page
            assert note in page, page
        # Neither with the right code any more, until it opens again.
        assert "<form" not in page and "the page closes" in site.send()
        site.setup.sent()
        eq((site.setup.ends, site.configuration, site.radio.joins), (500, CONFIG, []))


def test_no_file_is_taken():
    with Site() as site:
        request = Request()
        request.headers["content-type"] = "multipart/form-data; boundary=x"
        form = site.setup.form(request)
        file = b'--x\r\nContent-Disposition: form-data; name="ca"; filename="a"\r\n\r\n'
        assert "no file" in str(raises(ValueError, form.receive, file))
        assert not exists(PATH + "ca.der.part")


def test_after_five_minutes_it_closes_but_not_within_an_attempt():
    with Site(ONLINE) as site:
        site.now = 299_999
        site.setup.step()
        eq(site.setup.ends, None)
        site.now = 300_000
        site.setup.step()
        eq(site.setup.ends, 300_000)
    with Site(ONLINE) as site:
        site.request("POST", fields={"ssid": "attic", "key": "the-new-key", "code": CODE})
        site.now = 300_000
        site.setup.step()
        eq((site.setup.busy, site.setup.ends), (True, None))
        for _ in range(20):
            site.setup.step()
        eq(site.configuration["wifi_key"], "the-new-key")


def test_a_configuration_with_an_error_can_be_brought_into_a_network():
    """Safe mode has no network either."""
    with Site(ONLINE, text=json.dumps(dict(CONFIG, qos=7))) as site:
        assert "Saved" in site.send()
        eq(site.configuration, dict(CONFIG, qos=7, wifi_key="the-new-key"))


def test_a_power_cut_leaves_the_old_configuration_or_the_new_one():
    """After each file that is written, renamed or removed."""
    import files
    import settings

    class Cut(BaseException):
        pass

    for cut in range(20):
        calls = []

        def counted(what, calls=calls, cut=cut):
            def call(*args):
                if len(calls) == cut:
                    raise Cut
                calls.append(args)
                return what(*args)

            return call

        with Site(ONLINE) as site:
            write(PATH + "config.json.new", json.dumps(CONFIG))
            fake = Module(rename=counted(os.rename), remove=counted(os.remove), stat=os.stat)
            with Replaced(files, os=fake, open=counted(open)), Replaced(settings, os=fake):
                try:
                    site.send()
                except Cut:
                    pass
            new = dict(CONFIG, wifi_key="the-new-key")
            eq((cut, site.configuration in (CONFIG, new)), (cut, True))
            if len(calls) < cut:
                eq(site.configuration, new)
                # Settings that were to be tried do not bring the old network back.
                eq((exists(PATH + "config.json.new"), exists(PATH + "config.json.try")), (False, False))
                return
    raise AssertionError("never without a cut")


# --- when it opens ---


def opens(board, pin=None, is_there=True, began=0):
    """Whether a start, at ticks_ms() `began`, opens the page."""
    found = []

    def run(*args):
        found.append(args[2])

    radio = Module(available=lambda: True)
    modules = {"setup_again": Module(run=run), "setup_board": radio} if is_there else {"setup_again": Module()}
    given = dict(CONFIG, setup={"code": CODE} if pin is None else {"code": CODE, "pin": pin})
    with With(**modules):
        try:
            offline.begin(board, config.check(given, "d"), began)
        except Restarted:
            eq(found, [CODE])
            return True
    return False


def test_it_opens_after_an_hour_without_a_network_once():
    for memory, due in (
        (None, False),
        (b"gone\0\0", False),
        (b"gone" + (3599).to_bytes(2, "little"), False),
        (GONE, True),
        (b"gone" + (65530).to_bytes(2, "little"), True),
        (bytes(24), False),  # what a sensor that sleeps remembers
    ):
        board = Board(memory)
        eq((memory, opens(board)), (memory, due))
        eq((memory, opens(board)), (memory, False))
    eq((opens(Board(GONE), is_there=False)), False)  # a release has no set-up


def test_what_the_page_takes_is_added_to_the_time():
    """Which goes on over all these restarts: that of the application before, and that of the page."""
    boot, clock = 7 << 40, 180_000_000_000
    board = Board(GONE + (boot | clock).to_bytes(8, "little") + b"\1")
    eq(opens(board, began=ticks_add(ticks_ms(), -300_000)), True)
    eq(opens(board), False)
    kept = int.from_bytes(board.memory[6:14], "little")
    eq((board.memory[14:], kept >> 40), (b"\1", 7))
    assert 30_000 <= (kept & (1 << 40) - 1) - clock < 31_000, kept


class Button(Pin):
    """Its levels, one for each time that it is read; the last one stays."""

    reads = [1]

    def value(self):
        return Button.reads.pop(0) if len(Button.reads) > 1 else Button.reads[0]


def pressed(board, *reads, pin=9):
    Button.reads = list(reads)
    with With(machine=Module(Pin=Button)):
        return opens(board, pin)


def test_a_button_that_is_pressed_at_a_start_opens_it():
    board = Board()
    eq([pressed(board, 1), pressed(board, 0, 0, 1), pressed(board, 0)], [False, False, True])
    eq([pressed(board, 0), pressed(board, 0)], [False, False])  # it has to be let go in between
    eq([pressed(board, 1), pressed(board, 0)], [False, True])
    eq((Pin.made[-1].number, Pin.made[-1].how), (9, (Pin.IN, Pin.PULL_UP)))


def test_a_pin_that_the_board_does_not_have_is_no_button():
    eq(pressed(Board(), 0, pin=40), False)
    eq(pressed(Board(GONE), 0, pin=40), True)
    with With(machine=Module()):
        eq(opens(Board(), 9), False)


# --- the field ---


def given(**fields):
    return config.check(dict({"host": "h", "wifi_ssid": "s"}, **fields), "d")


def refused(**fields):
    return str(raises(ValueError, lambda: given(**fields)))


def test_the_field_is_checked():
    eq(config.check({"host": "h"}, "d").setup, None)
    for one in ({"code": "8 digits"}, {"code": "x" * 63, "pin": 0}, {"code": CODE, "pin": 63}):
        given(setup=one)
    for one in (True, "12345678", {}, {"pin": 4}, {"code": 12345678}, {"code": "x" * 7}, {"code": "x" * 64}):
        assert refused(setup=one).startswith("setup: write a code of 8 to 63 characters"), one
    for code in ("\u00e4" * 8, "tab\tulator", ""):
        assert refused(setup={"code": code}).startswith("setup: write a code"), code
    for pin in (-1, 64, "4", True, None, 4.0):
        eq(refused(setup={"code": CODE, "pin": pin}), "setup: pin: write the number of a GPIO")
    eq(refused(setup={"code": CODE, "pim": 4}), "setup: remove all but code and pin")
    eq(refused(setup={"code": CODE}, wifi_ssid=None), "setup needs wifi_ssid: write both, or leave setup out")


def test_its_pin_is_used_once():
    from entries import check

    def checked(setup_pin, sensor_pin):
        sensors = [{"driver": "dht22", "pin": sensor_pin}]
        check(given(setup={"code": CODE, "pin": setup_pin}, sensors=sensors))

    with With(machine=Module(Pin=Pin)):
        checked(9, 8)
        eq(str(raises(ValueError, checked, 9, 9)), "sensors: dht22: pin 9 is that of setup, too")
        assert str(raises(ValueError, checked, 40, 8)).startswith("setup: pin 40: not a pin of this board")


def test_safe_mode_keeps_it():
    import safe

    eq(safe.limit(dict(CONFIG, qos=7))["setup"], {"code": CODE})
    assert "setup" not in safe.limit(dict(CONFIG, setup={"code": "short"}))

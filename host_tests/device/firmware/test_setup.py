"""What the set-up tries, and when it ends, with a fake radio. The sockets: host_tests/firmware."""

import json
import os
import sys
from errno import EACCES, ECONNREFUSED, ETIMEDOUT

import assemble
import i2c_chips
import inflight.compat
import ram_board
import setup
import setup_attempt
from codes import ONLINE
from config import check
from files import exists
from hardware import With
from harness import SkipTest, eq, raises
from scratch import Replaced, read, remove, unused, write
from setup_attempt import Failed
from setup_http import BadRequest, Request
from setup_radio import Radio

RUNTIMES = "cpython micropython-x86"
PATH = unused() + "-"
BOARD = ram_board.Board(PATH + "config.json")


def outcome(attempt):
    """The error of an attempt, None if it was well."""
    try:
        for _ in attempt:
            pass
    except Failed as e:
        return str(e)


class Site:
    """A Setup whose broker is there at once, if it does not `refuse`; the time is `now`. `passwords`: what it got."""

    RADIO = Radio

    def __init__(self, *words):
        self.now = 0
        self.refuses = False
        self.passwords = []
        self.radio = self.RADIO(*words)
        self.setup = setup.Setup(BOARD, self.radio)
        self._replaced = Replaced(setup, ticks_ms=lambda: self.now, reach=self._reach)

    def __enter__(self):
        self._replaced.__enter__()
        return self

    def _reach(self, board, config):
        self.passwords.append(config.password)
        if self.refuses:
            raise Failed("refused")
        return iter(())

    def __exit__(self, *_):
        self._replaced.__exit__()
        for name in os.listdir("."):
            if name.startswith(PATH):
                remove(name)

    @property
    def configuration(self):
        return json.loads(read(PATH + "config.json"))

    def request(self, method, path, fields=None, error=None):
        request = Request()
        request.receive(("%s %s HTTP/1.1\r\nHost: 192.168.4.1\r\n\r\n" % (method, path)).encode())
        eq(self.setup.check(request), None)
        status, _, pieces = self.setup.respond(request, fields, error)
        text = b"".join(pieces).decode()
        return status, text

    def finish(self):
        for _ in range(20):
            self.setup.step()

    def send(self, fields, ca=None, end=b"--x--\r\n"):
        """Sends the form as a browser does, with a certificate, and waits for the outcome."""
        parts = [('name="%s"' % name, fields[name].encode()) for name in fields]
        parts.append(('name="ca"; filename="%s"' % ("ca.der" if ca else ""), ca or b""))
        body = b"".join(
            [b"--x\r\nContent-Disposition: form-data; " + a.encode() + HEAD_END + b + b"\r\n" for a, b in parts]
        )
        request = Request()
        request.headers["content-type"] = "multipart/form-data; boundary=x"
        form = self.setup.form(request)
        found = error = None
        try:
            form.receive(body + end)
            found = form.close()
        except ValueError as e:
            error = str(e)
        self.request("POST", "/", found, error)
        self.finish()


HEAD_END = b"\r\n\r\n"
GOOD = {"ssid": "attic", "key": "secret-key", "host": "broker"}


def test_the_device_restarts_when_the_success_was_told_or_after_a_time():
    for asks in (True, False):
        with Site(ONLINE) as site:
            eq(site.request("POST", "/", GOOD)[0], 303)
            assert 'http-equiv="refresh"' in site.request("GET", "/")[1] and site.setup.busy
            site.setup.sent()
            site.finish()
            eq(site.request("GET", "/favicon.ico")[0], 404)
            eq(site.request("GET", "/other")[0], 303)
            site.setup.sent()
            eq(site.setup.ends, 15_000)
            if asks:
                assert "Saved." in site.request("GET", "/")[1]
                site.setup.sent()
                eq(site.setup.ends, 500)
            eq(site.configuration["wifi_key"], "secret-key")
            # Nothing can be changed any more.
            site.request("POST", "/", dict(GOOD, host="elsewhere"))
            eq((site.setup.busy, site.setup.bring("attic", "x", None)), (False, False))


def test_a_scan_without_memory_finds_no_networks():
    """The name of one can be typed."""
    with Replaced(Radio, memory_error=True), Site(ONLINE) as site:
        assert "<option" not in site.request("GET", "/")[1]
        eq(site.request("GET", "/scan")[0], 303)
        site.request("POST", "/", {"other": "attic", "key": "secret-key", "host": "broker"})
        site.finish()
        eq(site.radio.joins, [("attic", "secret-key")])


def test_whoever_asks_for_scans_without_end_holds_nobody_up():
    """Each scan takes seconds: between two of them there are 15 s for a person who loads the page."""
    with Site(ONLINE) as site:
        begins = []
        site.radio.scan = lambda: begins.append(site.now) or ()
        for site.now in range(0, 120_000, 100):
            for _ in range(8):
                eq(site.request("GET", "/scan")[0], 303)
        eq(begins, list(range(0, 120_000, 15_000)))


def test_one_thing_is_tried_at_a_time():
    with Site(ONLINE, ONLINE) as site:
        ended = []
        eq(site.setup.bring("attic", "secret-key", ended.append), True)
        eq(site.setup.bring("other", "key", ended.append), False)
        eq(site.request("POST", "/", GOOD)[0], 303)
        site.finish()
        eq((ended, exists(PATH + "config.json")), ([None], False))
        eq(site.setup.url(), "http://10.0.0.7/")
        # The same network is not joined once more: the person may be there.
        site.request("POST", "/", {"ssid": "attic", "key": "", "host": "broker"})
        site.finish()
        eq((site.radio.joins, site.setup.ends), ([("attic", "secret-key")], 15_000))


def test_the_page_tells_what_the_check_of_the_file_would():
    """With the label of the field, and beside it."""
    for change, note in (
        ({"host": "192.168.0.37:1883"}, "Host: write the port in `port`"),
        ({"host": "mqtt://broker"}, "Host: write a name or an address alone"),
        ({"host": ""}, "Host is missing"),
        ({"port": "mqtt"}, "Port: write a whole number from 0 to 65535"),
        ({"key": "short"}, "Key: write 8 to 63 characters, or 64 hexadecimal digits"),
        ({"other": "\u00e4" * 17}, "Name: write 32 bytes at most"),
        ({"code": "short"}, "Code: write a code of 8 to 63 characters of ASCII"),
    ):
        with Site(ONLINE) as site:
            site.request("POST", "/", dict(OWNERS, **change))
            text = site.request("GET", "/")[1]
            assert ">%s</p>" % note in text, text
            mark = '<b id="wrong">%s</b><input autofocus aria-invalid="true" aria-describedby="wrong" name="%s"'
            assert mark % (note, next(iter(change))) in text, text
            assert not site.setup.busy
            site.request("POST", "/", OWNERS)
            assert "wrong" not in site.request("GET", "/")[1]


def test_sensors_that_a_configuration_for_a_cable_has_are_checked():
    """Others are not offered."""
    with Site(ONLINE) as site:
        site.radio.fields = {"sensors": [{"driver": "dth22", "pin": 4}]}
        site.setup = setup.Setup(BOARD, site.radio)
        assert 'name="sensor' not in site.request("GET", "/")[1]
        site.request("POST", "/", OWNERS)
        text = site.request("GET", "/")[1]
        assert "Sensors: dth22: unknown driver &quot;dth22&quot;: did you mean &quot;dht22&quot;?" in text, text
        assert not site.setup.busy


class Bus:
    """Two chips on I2C, as long as it is entered; the time is that of the chips."""

    def __enter__(self):
        i2c_chips.SoftI2C.chips = {35: i2c_chips.BH1750(1200), 104: i2c_chips.DS3231(84)}
        time = Replaced(inflight.compat, sleep_ms=i2c_chips.clock.sleep_ms)
        self._replaced = time, Replaced(Radio, BUSES=(8, 9, 4)), With(machine=i2c_chips.machine)
        for one in self._replaced:
            one.__enter__()

    def __exit__(self, *_):
        for one in self._replaced:
            one.__exit__()


LIGHT = {"driver": "bh1750", "sda": 8, "scl": 9, "address": 35}


def boxes(page):
    """[(what the label of a sensor says, whether it is chosen)]"""
    found = [line for line in page.split("\n") if 'name="sensor' in line]
    return [(line.split("> ")[1].split("</")[0], " checked>" in line) for line in found]


def test_the_sensors_that_the_buses_show_can_be_chosen():
    with Bus(), Site(ONLINE, ONLINE) as site:
        light, clock = "bh1750: 1000.0 lx", "ds3231: 21.0 Cel"
        eq(boxes(site.request("GET", "/")[1]), [(light, True), (clock, True)])
        site.refuses = True
        site.send(dict(GOOD, sensor0="on", ha="on"))
        page = site.request("GET", "/")[1]
        eq(boxes(page), [(light, True), (clock, False)])
        assert 'name="ha" type="checkbox" checked' in page
        site.refuses = False
        site.send(dict(GOOD, key="", sensor0="on", name0="a b", ha="on"))
        assert "Sensors: name: use letters, digits and" in site.request("GET", "/")[1]
        site.send(dict(GOOD, key="", sensor0="on", name0="roof", name1="none", ha="on", code="kelp-tram-93"))
        page = site.request("GET", "/")[1]
        assert "Home Assistant lists <b>a1b2c3d4e5f6</b>" in page
        assert "an hour later <b>inflight-d4e5f6</b> is there again" in page and "kelp" not in page
        given = site.configuration
        eq((given["sensors"], given["ha"]), ([dict(LIGHT, name="roof")], True))
        eq(given["setup"], {"code": "kelp-tram-93"})
        check(given, "id")
    with Bus(), Site(ONLINE) as site:  # none need be chosen
        site.send(GOOD)
        eq((site.configuration["sensors"], "ha" in site.configuration), ([], False))


def test_sensors_are_searched_again():
    with Bus(), Site() as site:
        i2c_chips.SoftI2C.chips = {}
        eq(site.request("GET", "/scan")[0], 303)
        page = site.request("GET", "/")[1]
        eq(boxes(page), [])
        assert "None answers on I2C (SDA 8, SCL 9) or 1-Wire (4)" in page


def certificate(content):
    return b"\x30\x81\x80" + bytes((content,)) * 128


OWNERS = {"ssid": "attic", "key": "secret-key", "host": "broker", "port": "1883", "user": "me"}


def test_a_password_goes_only_where_it_went_when_it_was_entered():
    """Whoever is near can send a form without a password after the owner's attempt has failed: with his own network,
    the name of the owner's with his own key, another host, port, user, or a CA of his own."""
    changes = [("ssid", "other"), ("other", "hidden"), ("key", "other-key"), ("host", "elsewhere"), ("port", "1884")]
    changes += [("user", "him"), ("plain", "on"), ("ca", certificate(2))]
    for change in [{}] + [{name: value} for name, value in changes]:
        with Site(*[ONLINE] * 3) as site:
            site.refuses = True
            site.send(dict(OWNERS, password="the-password"), certificate(1))
            sent = dict(OWNERS, key="", password="")
            sent.update(change)
            ca = sent.pop("ca", None)
            site.send(sent, ca)
            eq((change, site.passwords[1:]), (change, [None if change else "the-password"]))
            # It does not come back, either.
            site.send(dict(OWNERS, password=""))
            eq((change, site.passwords[2:]), (change, [None if change else "the-password"]))


def test_a_form_that_is_damaged_or_not_complete_replaces_no_certificate():
    for end in (b"damaged", b"--x\r\n"):
        with Site(*[ONLINE] * 3) as site:
            site.refuses = True
            site.send(dict(OWNERS, password="the-password"), certificate(1))
            site.send(OWNERS, certificate(2), end)
            eq(read(PATH + "ca.der"), certificate(1))
            assert not exists(PATH + "ca.der.part")
            site.send(dict(OWNERS, key="", password=""))
            eq(site.passwords, ["the-password"] * 2)


def test_only_the_device_itself_is_a_host():
    with Site() as site:
        for host in ("", "192.168.4.1:81", "10.0.0.7", "evil.example"):
            request = Request()
            request.receive(("GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % host).encode())
            eq((host, site.setup.check(request)), (host, "http://192.168.4.1/"))
        for origin in ("http://evil.example", "null"):
            request = Request()
            head = "POST / HTTP/1.1\r\nHost: 192.168.4.1\r\nOrigin: %s\r\nContent-Length: 0\r\n\r\n" % origin
            request.receive(head.encode())
            eq(raises(BadRequest, site.setup.check, request).status, 403)


class Refusal(Exception):
    code = 3


def test_why_a_broker_is_not_reached_is_told():
    for error, note in (
        (OSError(ECONNREFUSED, ""), "no broker at broker:1883: nothing listens there"),
        (OSError(ETIMEDOUT, ""), "no broker at broker:1883: no answer"),
        (OSError(EACCES, ""), "the broker broker:1883 refuses user name or password"),
        (Refusal("not now"), "the broker broker:1883 refuses the connection: not now"),
        (ValueError("odd"), "no broker at broker:1883: odd"),
    ):

        def fail(*_, error=error):
            raise error

        with Replaced(setup_attempt, _connect=fail):
            eq(outcome(setup_attempt.reach(BOARD, check({"host": "broker"}, "d"))), note)


def begins(path, available=True):
    """Whether a start with this path of the configuration is a set-up."""
    ran = []
    radio = Radio()
    radio.available = lambda: available
    with With(setup_board=radio), Replaced(setup, run=lambda board, radio: ran.append(radio)):
        assemble.set_up(ram_board.Board(path))
    return bool(ran)


def test_only_a_missing_file_opens_it():
    if sys.platform == "webassembly":
        raise SkipTest("its file system has error codes of its own")
    name = PATH + "config.json"
    eq((begins(name), begins(name, available=False)), (True, False))
    for content in ("", "{", '{"host": "broker"}'):
        write(name, content)
        eq((content, begins(name)), (content, False))
    eq(begins(name + "/config.json"), False)  # what cannot be looked at may be there
    os.remove(name)


class Wired:
    HTTP_PORT = 80
    fields = {"network": {"driver": "w5500", "sck": 10, "mosi": 11, "miso": 12, "cs": 13, "reset": 20}}

    def open_access_point(self, name):
        return self.address()

    def scan(self):
        return None

    def address(self):
        return "192.168.4.1"


def test_with_a_cable_no_network_is_asked_for():
    with Site() as site:
        site.setup = setup.Setup(BOARD, Wired())
        text = site.request("GET", "/")[1]
        assert 'name="host"' in text and 'name="ssid"' not in text and "Wi-Fi" not in text
        site.send({"host": "broker.example", "user": "u", "password": "p"})
        eq(site.configuration, dict(Wired.fields, host="broker.example", user="u", password="p"))
        wired = Wired()
        wired.fields = dict(Wired.fields, ha=True, root="house")
        site.setup = setup.Setup(BOARD, wired)
        site.send({"host": "broker"})
        text = site.request("GET", "/")[1]
        assert "<b>inflight serve --broker broker:1883 --root house</b>" in text
        assert "Home Assistant" in text and "<b>house/a1b2c3d4e5f6/telemetry</b>" in text and "goes away" not in text


def test_a_configuration_with_nothing_but_the_cable_leads_to_the_set_up():
    calls = []
    board = ram_board.Board(PATH + "config.json")
    board.network = lambda fields: fields
    name = PATH + "config.json"
    with Site(), Replaced(setup, run=lambda *args: calls.append(args)):
        for given, begins in (
            (Wired.fields, True),
            (dict(Wired.fields, hostname="attic"), True),
            (dict(Wired.fields, host="broker"), False),
            (dict(Wired.fields, qos=7), False),  # what is wrong is told
            ({"network": {"driver": "w5501"}}, False),
            ({"network": None}, False),
            ({"hostname": "attic"}, False),
            ([], False),
        ):
            write(name, json.dumps(given))
            del calls[:]
            assemble.set_up_by_cable(board)
            eq((given, len(calls)), (given, begins))

"""The configuration: accepted fields, and errors that tell the user what to do."""

import json

from config import ConfigError, check, load
from harness import eq, raises
from inflight.level5.mqtt5 import Session5
from inflight.session.session import Session
from node import will
from scratch import Folder

RUNTIMES = "cpython micropython-x86 micropython-wasm"


def config(**fields):
    fields.setdefault("host", "broker")
    return check(fields, "a1b2c3")


def refused(**fields):
    return str(raises(ConfigError, lambda: config(**fields)))


def test_only_the_host_is_required():
    c = config(user=None, device=None)  # null is the default
    eq((c.host, c.device, c.root, c.qos, c.protocol_level, c.log), ("broker", "a1b2c3", "inflight", 1, 4, "off"))
    eq((c.user, c.password, c.tls_ca, c.wifi_ssid, c.when_full), (None,) * 5)
    given = {"device": "attic", "root": "home/upstairs", "qos": 2, "port": 1884}
    given.update(interval_ms=250, when_full="oldest")
    c = config(log="info", **given)
    eq(({name: getattr(c, name) for name in given}, c.log), (given, "info"))
    assert '"host": "broker.example"' in str(raises(ConfigError, check, {}, "d"))
    assert '"error"' in refused(log="all")
    for wrong in ([], 1, "host", None):
        assert "JSON object" in str(raises(ConfigError, check, wrong, "d"))
    # The board's identity is used only without a name.
    asked = []
    eq(check({"host": "h", "device": "attic"}, lambda: asked.append(1)).device, "attic")
    eq((check({"host": "h"}, lambda: "a1b2").device, asked), ("a1b2", []))
    assert str(raises(ConfigError, check, {"host": "h"}, "no good")).startswith("device:")


def test_an_unknown_field_error_names_the_one_that_is_like_it_or_all():
    for name, meant in (
        ("intervall_ms", "interval_ms"),
        ("Host", "host"),
        ("hsot", "host"),
        ("ssid", "wifi_ssid"),
        ("passwd", "password"),
        ("sensor", "sensors"),
        ("tls_crt", "tls_cert"),
    ):
        eq(refused(**{name: 5}), 'unknown field "%s": did you mean "%s"?' % (name, meant))
    for name in ("wlan", "x", ""):
        text = refused(**{name: 5})
        assert text.startswith('unknown field "%s": remove it, or use one of actuators, awake_ms, ' % name), text
    assert 'unknown field "1"' in str(raises(ConfigError, check, {"host": "h", 1: 2}, "d"))  # MicroPython's JSON has it
    assert 'did you mean "key"?' in refused(wifi_ssid="s", wifi_networks=[{"ssid": "a", "kye": "1"}])
    assert 'did you mean "mosi"?' in refused(network=dict(PINS, driver="w5500", moosi=1))


def test_a_host_is_a_name_or_an_address():
    for host in ("broker.example", "192.168.0.37", "my_broker", "fe80::1", "fe80::1%wlan0"):
        eq((config(host=host).host, config(ntp=host).ntp), (host, host))
    for host in ("192.168.0.37:1883", "broker.example:8883"):
        eq(refused(host=host), "host: write the port in `port`")
        eq(refused(ntp=host), "ntp: leave the port out, it is 123")
    schemes = "mqtt://broker.example", "broker/mqtt", "[fe80::1]:1883", "me@broker"
    for host in schemes + ("a b", " a", "b\u00fccher.example"):
        eq(refused(host=host), 'host: write a name or an address alone, "host": "broker.example"')
        assert refused(ntp=host).startswith("ntp: write a name or an address alone"), host


def test_lengths_that_a_radio_takes():
    for ssid in ("x" * 32, "\u00e4" * 16):
        eq(config(wifi_ssid=ssid).wifi_ssid, ssid)
    for ssid in ("x" * 33, "\u00e4" * 17):
        eq(refused(wifi_ssid=ssid), "wifi_ssid: write 32 bytes at most")
        assert "wifi_networks: ssid: write 32" in refused(wifi_ssid="s", wifi_networks=[{"ssid": ssid}])
    for key in ("x" * 8, "x" * 63, "\u00e4" * 31, "0aF3" * 16):
        eq(config(wifi_ssid="s", wifi_key=key).wifi_key, key)
    for key in ("x" * 7, "\u00e4" * 32, "x" * 64, "0aF3" * 15 + "0aFx", "\u00e4" * 31 + "12", "x" * 65):
        eq(refused(wifi_ssid="s", wifi_key=key), "wifi_key: write 8 to 63 characters, or 64 hexadecimal digits")
        assert refused(wifi_ssid="s", wifi_networks=[{"ssid": "a", "key": key}]).startswith("wifi_networks: key: "), key


def test_number_errors_show_the_range():
    for value in (1, "", [], {}, False):
        assert refused(user=value).startswith("user:")
    for value in (0, 3, "1", 1.5, True, None, [1]):
        text = refused(qos=value)
        assert text.startswith("qos:") and "1 to 2" in text, text
    wrong = ("port", 65536), ("interval_ms", 99), ("keepalive", -1), ("protocol_level", 6)
    for name, value in wrong + (("expiry_s", -1), ("max_inflight", 0)):
        assert refused(**{name: value}).startswith(name)


def test_names_are_valid_in_topics():
    for device in ("a/b", "a+", "#", "a b", "\u00e4", "a:b", "a\n"):
        assert refused(device=device).startswith("device:"), device
    for root in ("/a", "a/", "a//b", "a/#", "$SYS", "a b"):
        assert refused(root=root).startswith("root:"), root


def test_a_group_is_a_label():
    eq((config().group, config(group=None).group), (None, None))
    eq(config(group="green-house_2.b").group, "green-house_2.b")
    for group in ("a/b", "a b", "a+", "\u00e4", "a\n"):
        eq(refused(group=group), "group: use letters, digits and -_.")
    eq(refused(group="x" * 65), "group: write 64 characters at most")
    for group in ("", 5, ["a"], True):
        assert refused(group=group).startswith("group: write a text"), group


def test_fields_that_need_another():
    for name in ("expiry_s", "will_delay_s"):
        assert '"protocol_level": 5' in refused(**{name: 60})
        eq(getattr(config(protocol_level=5, **{name: 60}), name), 60)
    assert "user" in refused(password="x")
    assert "tls_key" in refused(tls_ca="ca", tls_cert="c")
    assert "tls_cert" in refused(tls_ca="ca", tls_key="k")
    assert "tls_ca" in refused(tls_cert="c", tls_key="k")
    assert "wifi_ssid" in refused(wifi_key="x")
    assert "oldest" in refused(when_full="all")
    eq(refused(port=8883), "port: 8883 is that of TLS: write tls_ca, or leave port out")
    eq(config(port=8883, tls_ca="ca").port, 8883)


def test_connect_fits_the_buffer():
    """With a token as password."""
    for level, kind, spare in ((3, Session, 0), (4, Session, 0), (5, Session5, 5)):
        given = {"user": "dev", "password": "x" * 600, "protocol_level": level}
        told = refused(**given)
        size = int(told.split()[2]) // 2
        eq(told, "buffer: write %d at least (CONNECT takes %d bytes)" % (2 * size, size))
        c = config(buffer=2 * size, **given)
        session = kind(None, bytearray(c.buffer), c.device.encode(), level)
        topic, message, qos, retain = will(c)
        found = topic.encode(), message.encode(), qos, retain, b"\0"
        eq(session.put_connect(False, 60, b"dev", c.password.encode(), found) + 2 + spare, size)


def test_a_pin_wakes_a_device_that_sleeps():
    eq(config(sleep_ms=1_000, wake_on_pin=0).wake_on_pin, 0)
    for none in ({}, {"wake_on_pin": None}):
        assert not hasattr(config(sleep_ms=1_000, **none), "wake_on_pin")
    for number in (-1, 49, "4", True, 4.5):
        eq(refused(sleep_ms=1_000, wake_on_pin=number), "wake_on_pin: write the number of a GPIO")
    eq(refused(wake_on_pin=4), "wake_on_pin needs sleep_ms: write both, or leave wake_on_pin out")
    assert 'did you mean "wake_on_pin"' in refused(wake_pin=4)


def test_public_keys():
    eq(config().update_keys, None)
    key = "gAAA" + 127 * "AAAB"  # 80 00 .. 01, which has 3072 bits and is odd
    for keys in ([key], [key, key]):
        eq(config(update_keys=keys).update_keys, True)  # the configuration does not keep them in RAM
    for keys in ([], [key] * 3, [key[1:]], [5], [key + "A", key], [key[:508], key]):
        assert "inflight keys" in refused(update_keys=keys), keys
    even, short, text, less = key[:-1] + "A", "fwAA" + key[4:], "-" * 512, key[:-4] + "AQ=="
    for wrong in (even, short, text, less):
        assert "inflight keys" in refused(update_keys=[key, wrong]), wrong
    assert "update_keys" in refused(update_keys=key)


def test_network_fields():
    eq((config().ntp, config().hostname, config().wifi_ip), ("pool.ntp.org", None, None))
    ip = ["192.168.1.20", "255.255.255.0", "192.168.1.1", "9.9.9.9"]
    c = config(wifi_ssid="s", wifi_ip=ip, wifi_country="DE", hostname="attic-1", ntp="time.example")
    eq((c.wifi_ip, c.wifi_country, c.hostname, c.ntp), (ip, "DE", "attic-1", "time.example"))
    eq(config(ntp=False).ntp, False)
    assert refused(ntp=True).startswith("ntp:")
    assert "wifi_ssid" in refused(wifi_ip=ip)
    assert "wifi_ssid" in refused(wifi_country="DE")
    for country in ("de", "D", "DEU", "D1", "\u00c4\u00d6"):
        assert '"wifi_country": "DE"' in refused(wifi_ssid="s", wifi_country=country), country
    for hostname in ("a_b", "a b", "-a", "a-", "x" * 33, "\u00e4"):
        assert refused(hostname=hostname).startswith("hostname:"), hostname
    for bad in ([], ip[:3], ip + ip[:1], ip[:3] + ["9.9.9"], ip[:3] + ["9.9.9.256"], ip[:3] + ["9.9..9"], ip[:3] + [9]):
        assert "name server" in refused(wifi_ssid="s", wifi_ip=bad), bad
    for bad in ("192.168.1.20", 1, {}):
        assert "write a list" in refused(wifi_ssid="s", wifi_ip=bad), bad


def test_radio_fields():
    c = config()
    eq((c.wifi_networks, c.wifi_security, c.wifi_txpower, c.wifi_power_save), (None, None, None, False))
    more = [
        {"ssid": "cellar", "key": "the-secret"},
        {"ssid": "open"},
        {"ssid": "new", "key": "the-new-one", "security": "wpa3"},
    ]
    c = config(wifi_ssid="s", wifi_networks=more, wifi_security="wpa3", wifi_txpower=8.5, wifi_power_save=True)
    eq((c.wifi_networks, c.wifi_security, c.wifi_txpower, c.wifi_power_save), (more, "wpa3", 8.5, True))
    for name, value in (
        ("wifi_networks", more),
        ("wifi_security", "wpa3"),
        ("wifi_txpower", 8.5),
        ("wifi_power_save", True),
    ):
        assert "wifi_ssid" in refused(**{name: value}), name
    for value in (1, "8", True, 22, [8]):
        assert "2 to 21" in refused(wifi_ssid="s", wifi_txpower=value), value
    for value in (1, "yes", None):
        assert "true or false" in refused(wifi_ssid="s", wifi_power_save=value), value
    for value in ("wpa2", "WPA3"):
        assert '"wpa3"' in refused(wifi_ssid="s", wifi_security=value)
    for entry in (4, "cellar", {}, {"ssid": ""}, {"ssid": 4}, {"ssid": "a", "key": 4}, {"ssid": "a", "wlan": 1}):
        assert refused(wifi_ssid="s", wifi_networks=[entry]).startswith("wifi_networks:"), entry


def test_watchdog_waits_for_three_time_outs():
    eq(config(timeout_ms=10_000, watchdog_ms=30_000).watchdog_ms, 30_000)
    for ms in (1, 20_000, 29_999):
        assert "3 times timeout_ms" in refused(timeout_ms=10_000, watchdog_ms=ms), ms
    eq(config(timeout_ms=10_000, watchdog_ms=0).watchdog_ms, 0)


def test_sleeping():
    eq((config().sleep_ms, config().awake_ms, config().report_every), (0, 30_000, 1))
    eq(config(sleep_ms=60_000, report_every=10).report_every, 10)
    assert "2 times awake_ms" in refused(sleep_ms=1000, watchdog_ms=50_000)
    assert "2 times awake_ms" in refused(sleep_ms=1000, watchdog_ms=49_999, awake_ms=25_000)
    eq(config(sleep_ms=1000, watchdog_ms=50_000, awake_ms=25_000).watchdog_ms, 50_000)
    eq(config(watchdog_ms=50_000).watchdog_ms, 50_000)


def test_prefix_of_home_assistant():
    for given, prefix in ((True, "homeassistant"), (False, None), (None, None), ("ha/x", "ha/x")):
        eq(config(ha=given).ha, prefix)
    for given in (1, 0, "", [], {}):
        assert '"ha": "homeassistant"' in refused(ha=given), given
    assert "ha: use letters" in refused(ha="a/#")
    for name, text in (("ha", "true"), ("ha", "false"), ("ntp", "false")):
        eq(refused(**{name: text}), "%s: write %s without quotes" % (name, text))


def test_actuators():
    entries = [{"driver": "switch", "pin": 4, "name": "pump"}, {"driver": "pwm", "pin": 5}]
    eq(config(actuators=entries).actuators, entries)
    for entry in (4, {}, {"driver": 1}):
        assert '"actuators": [{"driver": "switch"' in refused(actuators=[entry]), entry
    assert "-_." in refused(actuators=[{"driver": "switch", "name": "a/b"}])
    assert "there twice" in refused(actuators=[{"driver": "switch"}, {"driver": "switch"}])
    assert "not with sleep_ms" in refused(actuators=entries, sleep_ms=60_000)


def test_sensors():
    eq(config().sensors, None)
    entries = [{"driver": "dht22", "pin": 4, "name": "attic"}, {"driver": "dht22", "pin": 5}, {"driver": "adc"}]
    eq(config(sensors=entries).sensors, entries)
    for entry in (4, "dht22", [], {}, {"pin": 4}, {"driver": 4}, None):
        assert '"driver": "dht22"' in refused(sensors=[entry]), entry
    for name in ("a b", "\u00e4", "-a", ".a", "a" * 33, 4, 'a"'):
        assert "name" in refused(sensors=[{"driver": "adc", "name": name}]), name
    assert '"dht22" is there twice' in refused(sensors=entries[1:2] * 2)
    assert "write a list" in refused(sensors={"driver": "adc"})


def test_no_secret_is_shown():
    secret = "hunter2"
    texts = [
        refused(password=secret),
        refused(password=[secret], user="u"),
        refused(wifi_key=secret),
        refused(wifi_key={"k": secret}, wifi_ssid="s"),
        refused(password=secret, user="u", qos=9),
        repr(config(password=secret, user="u")),
    ]
    for text in texts:
        assert secret not in text, text


def in_file(text):
    """The Config in a file with `text`, or bytes."""
    with Folder() as folder:
        folder.write("config.json", text)
        return load(folder.at("config.json"), "dev")


def test_load():
    """Its errors name the file and the field, or what to create."""
    eq(in_file(json.dumps({"host": "h", "qos": 2})).qos, 2)
    assert ".json: qos:" in str(raises(ConfigError, in_file, '{"host": "h", "qos": 3}'))
    error = str(raises(ConfigError, load, "no-such-file.json", "d"))
    assert "no-such-file.json" in error and "create it" in error


def test_what_is_around_the_object():
    """In UTF-8, without a BOM."""
    eq(in_file(' \t\r\n{"host": "h"}\r\n').host, "h")
    for text in ("", "{", '{"host": "h", "qos": 2', '{"host": "h"}\u00a0', '\u00a0{"host": "h"}', '["host"]', '"host"'):
        assert "not JSON, or no object" in str(raises(ConfigError, in_file, text)), text
    right = b'{"host": "h"}'
    assert "begins with a BOM: save it as UTF-8 without" in str(raises(ConfigError, in_file, b"\xef\xbb\xbf" + right))
    for text in (b"\xff\xfe" + bytes(2).join(bytes((c,)) for c in right), b'{"host": "h", "wifi_ssid": "caf\xe9"}'):
        assert "not UTF-8: save it as UTF-8" in str(raises(ConfigError, in_file, text)), text


def test_characters_that_micropython_reads_otherwise():
    for text in ("\\ud83d\\ude00", "\\uD83D", "\\\\\\udc00", "a\\uDfFfb"):
        error = str(raises(ConfigError, in_file, '{"host": "h", "wifi_ssid": "%s"}' % text))
        assert "write characters as they are, not as \\ud83d\\ude00" in error, error
    for text, ssid in (
        ("caf\\u00e9", "caf\u00e9"),
        ("\\uD7ff", "\ud7ff"),
        ("\U0001f600", "\U0001f600"),
        ("\\\\ud83d", "\\ud83d"),
    ):
        eq(in_file('{"host": "h", "wifi_ssid": "%s"}' % text).wifi_ssid, ssid)


ADDRESS = ["10.0.0.2", "255.0.0.0", "10.0.0.1", "10.0.0.1"]
PINS = {"sck": 10, "mosi": 11, "miso": 12, "cs": 13}


def test_ethernet():
    for fields in (
        dict(PINS, driver="w5500", reset=20),
        dict(PINS, driver="w5500", int=21, spi=1, baudrate=40_000_000, ip=ADDRESS),
        {"driver": "lan8720", "mdc": 23, "mdio": 18, "power": 12, "phy_addr": 1, "ref_clk": 17, "ref_clk_mode": "out"},
    ):
        c = config(network=fields)
        eq((c.network, c.joins), (fields, True))
    eq((config().network, config().joins, config(wifi_ssid="attic").joins), (None, False, True))


def test_ethernet_that_is_wrong():
    for fields, text in (
        (5, "write {"),
        ({}, "write {"),
        ({"driver": "enc28j60"}, '"lan8720"'),
        ({"driver": "w5500", "sck": 10}, "mosi is missing"),
        (dict(PINS, driver="w5500", cs=64), "cs: write a whole number from 0 to 63"),
        (dict(PINS, driver="w5500", cs=True), "cs: write a whole number"),
        (dict(PINS, driver="w5500", mdc=1), 'unknown field "mdc"'),
        (dict(PINS, driver="w5500", ip=["1.2.3.4"]), "network: ip"),
        ({"driver": "lan8720", "mdc": 23, "mdio": 18, "ref_clk_mode": 1}, "ref_clk_mode"),
    ):
        assert text in refused(network=fields), (fields, refused(network=fields))
    assert "not both" in refused(network=dict(PINS, driver="w5500"), wifi_ssid="attic")

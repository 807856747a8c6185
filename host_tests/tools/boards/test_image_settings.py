"""Configuration and certificates for a device: checked, converted, and not tracked by git."""

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from host_tests.processes import INFLIGHT
from inflight_tools.boards.images.variants import names, variant
from inflight_tools.settings import Tls, settings
from inflight_tools.update import keys

_AUTHORITY = trustme.CA()
CA, KEY = _AUTHORITY.cert_pem.bytes(), _AUTHORITY.private_key_pem.bytes()
SECRET = "open sesame"
CURVE = b"-----BEGIN EC PARAMETERS-----\nBggqhkjOPQMBBw==\n-----END EC PARAMETERS-----\n"  # as openssl writes
TLS = {"host": "broker.example", "tls_ca": "/ca.der"}
MUTUAL = TLS | {"tls_cert": "cert.der", "tls_key": "/key.der"}


def der(pem):
    return base64.b64decode(b"".join(pem.splitlines()[1:-1]))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, data in {
        "ca.pem": b"An authority\n" + CA,
        "ca.der": der(CA),
        "two.pem": CA * 2,
        "key.pem": CURVE + KEY,
        "other.pem": trustme.CA().private_key_pem.bytes(),
        "ed25519.pem": Ed25519PrivateKey.generate().private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        "sequence.der": b"\x30\x02\x05\x00",
        "locked.pem": KEY.replace(b"EC PRIVATE", b"ENCRYPTED PRIVATE"),
        "text": b"no certificate",
    }.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def write(fields, name="config.json"):
    Path(name).write_text(json.dumps(fields))
    return name


def refused(config, *files):
    with pytest.raises(ValueError) as e:
        settings(config, Tls(*files))
    assert "\n" not in str(e.value) and SECRET not in str(e.value)
    return str(e.value)


def test_keys_that_check_releases_are_keys(folder):
    """A number with a small factor is none, which the firmware, with little memory, takes."""

    def configured(*found):
        return write({"host": "broker.example", "update_keys": found})

    real = keys.public(rsa.generate_private_key(65537, keys.BITS))
    settings(configured(real))
    assert "update_keys: write one public key" in refused(configured(real, "-" * 512))
    for factor in (3, 257, 65521):
        number = ((1 << 3072) // factor // 2 * 2 - 1) * factor
        wrong = base64.b64encode(number.to_bytes(384, "big")).decode()
        assert "update_keys: number 1 is no public key" in refused(configured(wrong))


@pytest.mark.parametrize("local", ["ca.pem", "ca.der"])
def test_certificates_are_converted_to_der(folder, local):
    found = settings(write(MUTUAL), Tls(local, "ca.der", "key.pem"))
    assert sorted(found) == ["/ca.der", "/cert.der", "/config.json", "/key.der"]
    assert (found["/ca.der"], found["/cert.der"], found["/key.der"]) == (der(CA), der(CA), der(KEY))


@pytest.mark.parametrize(
    ("fields", "locals_", "problem"),
    [
        (TLS, (), "config.json: tls_ca is /ca.der: name the file that goes there with --ca <PEM or DER file>"),
        ({"host": "b"}, ("ca.pem",), "config.json: tls_ca is missing: write where ca.pem goes on the device"),
        (TLS, ("none.pem",), "no file none.pem: name the certificate's file"),
        (TLS, ("text",), "text: not a certificate in PEM or DER"),
        (TLS, ("key.pem",), "key.pem: 0 PEM blocks with a certificate: a device takes exactly one"),
        (TLS, ("two.pem",), "two.pem: 2 PEM blocks with a certificate"),
        (MUTUAL, ("ca.pem", "ca.pem", "text"), "text: not a private key in PEM or DER"),
        (MUTUAL, ("ca.pem", "ca.pem", "locked.pem"), "locked.pem: the key is encrypted: decrypt it first"),
        (MUTUAL | {"tls_cert": "/ca.der"}, ("ca.pem", "ca.pem", "key.pem"), "config.json: tls_cert: /ca.der is taken"),
        (TLS | {"tls_ca": "/config.json"}, ("ca.pem",), "config.json: tls_ca: /config.json is taken"),
        ({"host": "b", "password": SECRET}, (), "config.json: password needs user"),
        ({"host": "b", "wifi_key": [SECRET]}, (), "config.json: wifi_key: write a text in quotes"),
        ({"host": "b", "pasword": SECRET}, (), 'config.json: unknown field "pasword": did you mean "password"?'),
        (MUTUAL, ("ca.pem", "ca.pem", "other.pem"), "other.pem is not the private key of ca.pem: name the key"),
        (MUTUAL, ("ca.pem", "ca.der", "ed25519.pem"), "ed25519.pem: a device knows private keys of RSA and EC alone"),
        (MUTUAL, ("ca.pem", "ca.pem", "sequence.der"), "sequence.der: a device knows private keys of RSA and EC alone"),
        ([SECRET], (), "config.json: not JSON"),
    ],
)
def test_errors(folder, fields, locals_, problem):
    assert refused(write(fields), *locals_).startswith(problem)


# --- the file ---


def test_a_byte_order_mark_does_not_reach_the_device(folder):
    right = json.dumps({"host": "b"}).encode()
    Path("config.json").write_bytes(b"\xef\xbb\xbf" + right)
    assert settings("config.json") == {"/config.json": right}
    assert settings(write(TLS | {"tls_ca": None})) == {"/config.json": Path("config.json").read_bytes()}
    assert refused("none.json").startswith("no file none.json: write one, docs/configuration.md tells the fields")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"host": "b"}'.encode("utf-16"), "not UTF-8: save it as UTF-8"),
        (b'{"host": "b", "wifi_ssid": "caf\xe9"}', "not UTF-8: save it as UTF-8"),
        ('{"host": "b"}\u00a0'.encode(), "not JSON, or no object"),
        (b'{"host": "b",\n "user": "u",\n "password": "open sesame",}', "not JSON: look for a missing quote, comma or"),
        (b'{"host": "b", "user": "u"\n "password": "open sesame"}', "brace in line 2, or before"),
        (b'{"host": "b", "host": "c"}', '"host" is there twice: remove one of them'),
        (b'{"host": "b", "sensors": [{"driver": "adc", "pin": 1, "pin": 2}]}', '"pin" is there twice'),
        (b'{"host": "b", "wifi_txpower": NaN}', "NaN is no JSON: write a number"),
        (b'{"host": "b", "wifi_txpower": -Infinity}', "-Infinity is no JSON: write a number"),
        (b'{"host": "b", "sensors": [{"driver": "adc", "pin": 1, "scale": 1e39}]}', "1e39 is too large"),
        (b'{"host": "b", "wifi_ssid": "\\ud83d\\ude00"}', "write characters as they are, not as \\ud83d\\ude00"),
        (b'{"a":' * 100_000 + b"}" * 100_000, "nests too deep"),
    ],
    ids=range(12),
)
def test_what_a_device_would_not_read_or_read_otherwise(folder, text, problem):
    Path("config.json").write_bytes(text)
    told = refused("config.json")
    assert told.startswith("config.json: ") and problem in told


# --- sensors and actuators ---


def entry(**fields):
    return write({"host": "b", "sensors": [fields]})


def test_sensors_are_checked_by_the_firmware_s_own_code(folder):
    settings(entry(driver="dht22", pin=4))
    told = refused(entry(driver="dth22", pin=4))
    assert told.startswith('config.json: sensors: dth22: unknown driver "dth22": did you mean "dht22"?')
    lamp = {"driver": "led", "pin": 4, "name": "lamp"}
    both = write({"host": "b", "sensors": [{"driver": "dht22", "pin": 4}], "actuators": [lamp]})
    assert "actuators: lamp: pin 4 is that of sensors: dht22: pin, too" in refused(both)


def test_other_packages_keep_their_modules(folder, monkeypatch):
    """The firmware's have names that many have."""
    theirs = {name: ModuleType(name) for name in ("config", "sensors", "log")}
    for name, module in theirs.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.delitem(sys.modules, "entries", raising=False)  # an earlier test may have imported the firmware's
    search = list(sys.path)
    settings(entry(driver="dht22", pin=4))
    refused(entry(driver="dth22", pin=4))
    assert {name: sys.modules[name] for name in theirs} == theirs and sys.path == search
    assert "entries" not in sys.modules or "firmware" not in str(sys.modules["entries"])


@pytest.mark.parametrize(
    ("board", "fields", "problem"),
    [
        ("esp32", {"driver": "dht22", "pin": 6}, "sensors: dht22: pin 6: the pins of ESP32 are 0-5, 9, 10, 12-23, "),
        ("esp32", {"driver": "dht22", "pin": 34}, "pin 34: the pins 34-39 of ESP32 can only be read"),
        ("esp32", {"driver": "adc", "pin": 5}, "pin 5: the analogue pins of ESP32 are 0, 2, 4, 12-15"),
        ("esp32", {"driver": "hx711", "data": 34, "clock": 35}, "clock 35: the pins 34-39 of ESP32 can only be read"),
        ("esp32c3", {"driver": "bh1750", "sda": 8, "scl": 23}, "scl 23: the pins of ESP32-C3 are 0-10"),
        ("pico_w", {"driver": "digital", "pin": "GP23"}, "pin 23: the pins of Raspberry Pi Pico W are 0-22, 26-28"),
        ("pico_w", {"driver": "digital", "pin": True}, "pin True: the pins of Raspberry Pi Pico W"),
        ("pico2_w", {"driver": "digital", "pin": None}, "pin None: the pins of Raspberry Pi Pico 2 W"),
    ],
)
def test_pins_that_a_board_does_not_have(folder, board, fields, problem):
    with pytest.raises(ValueError, match=re.escape(problem)):
        settings(entry(**fields), board=variant(board))


ATTIC = {"driver": "dht22", "pin": 4, "name": "attic"}
JOINS = {"wifi_ssid": "home"}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"sensors": [{"driver": "adc", "pin": 25}]}, None),
        ({"sensors": [{"driver": "adc", "pin": 34}], **JOINS}, None),
        ({"sensors": [{"driver": "adc", "pin": 25}], **JOINS}, "adc: pin 25: with Wi-Fi ESP32 measures at 32-39 alone"),
        ({"sensors": [{"driver": "counter", "pin": 35}]}, None),
        ({"sensors": [{"driver": "counter", "pin": 35, "pull": "up"}]}, "counter: pull: the pins 34-39 of ESP32 have "),
        ({"sensors": [{"driver": "ina219", "sda": 4, "scl": 5, "shunt": 0}]}, "ina219: shunt: write its resistance"),
        ({"sensors": [{"driver": "sht4x", "sda": 4, "scl": 5, "address": 1}]}, "sht4x: address: use one of 68, 69, 70"),
        ({"sensors": [{"driver": "ds18x20", "pin": 4}, {"driver": "hx711", "data": 12, "clock": 13}]}, None),
        ({"sensors": [ATTIC], "interval_ms": 100}, "attic: it measures each 2000 ms at most: interval_ms is 100"),
        ({"sensors": [ATTIC], "interval_ms": 100, "sleep_ms": 60_000}, None),
        ({"sensors": [ATTIC | {"report_on_change": 1}]}, "attic: it measures each 2000 ms at most: check_ms is 1000"),
        (
            {"sensors": [ATTIC, {"driver": "adc", "pin": 34, "name": "attic-humidity"}]},
            "attic-humidity is a reading of attic, too: give it another name",
        ),
        ({"sensors": [{"driver": "adc", "pin": 34, "name": "memory"}]}, "memory is a reading of this board, too"),
        ({"sensors": [ATTIC, {"driver": "adc", "pin": 34, "name": "attic-pressure"}]}, None),
        ({"actuators": [{"driver": "pwm", "pin": 4, "freq": 0}]}, "actuators: pwm: freq 0: not a frequency of this "),
        ({"actuators": [{"driver": "pwm", "pin": 4, "invert": "no"}]}, "actuators: pwm: invert: write true or false"),
        ({"user": "u", "password": "token" * 400}, "buffer: write 4"),
    ],
)
def test_what_would_not_run(folder, fields, problem):
    """As the parts of the device see it, each made without hardware."""
    with pytest.raises(ValueError, match=re.escape(problem)) if problem else nullcontext():
        settings(write({"host": "b", **fields}), board=variant("esp32"))


@pytest.mark.parametrize("pin", [[1], {}, True, None])
def test_a_pin_that_no_board_has(folder, pin):
    assert "sensors: digital: pin: write the number of a pin, or its name" in refused(entry(driver="digital", pin=pin))


@pytest.mark.parametrize(
    ("board", "number", "problem"),
    [
        ("esp32", 5, "wake_on_pin: the pins that wake ESP32 are 0, 2, 4, 12-15, 25-27, 32-39, not 5"),
        ("esp32s3", 38, "wake_on_pin: the pins that wake ESP32-S3 are 0-18, 21, not 38"),
        ("esp32c3", 4, "wake_on_pin: MicroPython cannot wake ESP32-C3 by a pin: leave it out"),
        ("pico_w", 4, "wake_on_pin: MicroPython cannot wake Raspberry Pi Pico W by a pin: leave it out"),
        ("pico2_w", 4, "wake_on_pin: MicroPython cannot wake Raspberry Pi Pico 2 W by a pin: leave it out"),
        ("esp32", 4, None),
        ("esp32s2", 21, None),
        ("esp32c6", 4, None),
    ],
)
def test_pins_that_wake_a_board(folder, board, number, problem):
    fields = {"sleep_ms": 60_000, "wake_on_pin": number, "sensors": [{"driver": "digital", "pin": number}]}
    path = write({"host": "b", **fields})
    with pytest.raises(ValueError, match=re.escape(problem)) if problem else nullcontext():
        settings(path, board=variant(board))


@pytest.mark.parametrize("board", names())
def test_pins_that_each_board_has(folder, board):
    given = [{"driver": "dht22", "pin": 4}, {"driver": "adc", "pin": "LED"}]
    given += [{"driver": "hx711", "data": 5, "clock": 10}]
    settings(write({"host": "b", "sensors": given}), board=variant(board))
    for number in {"esp32": (34, "GPIO39"), "esp32s2": (46,)}.get(board, ()):
        settings(entry(driver="digital", pin=number), board=variant(board))


def test_the_locale_does_not_matter(tmp_path):
    """Neither for a configuration, nor for the texts of the application."""
    (tmp_path / "config.json").write_text('{"host": "h", "wifi_ssid": "Caf\u00e9"}', "utf-8")
    how = {"cwd": tmp_path, "env": {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}}

    def run(*words):
        done = subprocess.run([*INFLIGHT, "board", *words], capture_output=True, text=True, **how)
        return done.stdout + done.stderr

    assert "no file none: --firmware" in run("image", "--board", "pico_w", "--firmware", "none")
    assert "manifest.py" in run("freeze", "out", "--board", "pico_w", "--application")
    assert "\u00b0C".encode() in (tmp_path / "out/modules/discovery.py").read_bytes()


# --- secrets and git ---


@pytest.fixture
def repository(folder):
    if not shutil.which("git"):
        pytest.skip("no git")
    git("init", "-q")
    return folder


def git(*words):
    subprocess.run(["git", *words], check=True)


def test_a_secret_that_git_tracks_is_refused(repository):
    attic = {"host": "b", "wifi_ssid": "attic"}
    more = [{"ssid": "cellar", "key": SECRET}]
    for name, fields, files, problem in (
        ("config.json", {"wifi_key": SECRET}, (), "config.json holds wifi_key and git tracks it: move it, or `git rm"),
        ("config.json", {"wifi_networks": more}, (), "config.json holds wifi_networks and git tracks it"),
        ("key.pem", MUTUAL, ("ca.pem", "ca.pem", "key.pem"), "key.pem is a private key and git"),
    ):
        config = write(attic | fields)
        git("add", name)
        assert refused(config, *files).startswith(problem)
        git("rm", "-q", "--cached", name)
    assert SECRET not in refused(write(attic | {"wifi_networks": [*more, {"key": SECRET}]}))


def test_a_secret_that_git_does_not_ignore_causes_a_warning(repository, capsys):
    config = write({"host": "b", "user": "u", "password": SECRET})
    settings(config)
    result = capsys.readouterr()
    assert result.err == "note: config.json holds password and git does not ignore it: list it in .gitignore\n"
    assert result.out == ""
    Path(".gitignore").write_text("config.json\n")
    settings(config)
    git("add", write(TLS, "without.json"))
    assert settings("without.json", Tls("ca.pem"))
    assert capsys.readouterr().err == ""

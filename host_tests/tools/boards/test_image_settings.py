"""Configuration and certificates for a device: checked, converted, and not tracked by git."""

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.asymmetric import rsa

from host_tests.processes import INFLIGHT
from inflight_tools.settings import settings
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
        "locked.pem": KEY.replace(b"EC PRIVATE", b"ENCRYPTED PRIVATE"),
        "text": b"no certificate",
    }.items():
        (tmp_path / name).write_bytes(data)
    return tmp_path


def write(fields, name="config.json"):
    Path(name).write_text(json.dumps(fields))
    return name


def refused(*words):
    with pytest.raises(ValueError) as e:
        settings(*words)
    assert "\n" not in str(e.value) and SECRET not in str(e.value)
    return str(e.value)


def test_a_configuration_is_copied_unchanged(folder):
    assert settings(write(TLS | {"tls_ca": None})) == {"/config.json": Path("config.json").read_bytes()}


def test_keys_that_check_releases_are_keys(folder):
    real = keys.public(rsa.generate_private_key(65537, keys.BITS))
    settings(write({"host": "broker.example", "update_keys": [real]}))
    even, short = (base64.b64encode(data).decode() for data in (b"\x80" + bytes(383), bytes(383) + b"\x01"))
    for wrong in (even, short, "k" * 512, "-" * 512):
        assert "update_keys: write one public key" in refused(
            write({"host": "broker.example", "update_keys": [real, wrong]})
        )


@pytest.mark.parametrize("factor", [3, 257, 65521])
def test_a_number_with_a_small_factor_is_no_key(folder, factor):
    """The firmware, which has little memory, takes it."""
    number = (1 << 3072) // factor // 2 * 2 - 1
    wrong = base64.b64encode((number * factor).to_bytes(384, "big")).decode()
    assert "update_keys: number 1 is no public key" in refused(
        write({"host": "broker.example", "update_keys": [wrong]})
    )


@pytest.mark.parametrize("local", ["ca.pem", "ca.der"])
def test_certificates_are_converted_to_der(folder, local):
    assert settings(write(TLS), local)["/ca.der"] == der(CA)


def test_the_device_s_own_certificate_and_key(folder):
    found = settings(write(MUTUAL), "ca.pem", "ca.der", "key.pem")
    assert found["/cert.der"] == der(CA)
    assert found["/key.der"] == der(KEY)
    assert sorted(found) == ["/ca.der", "/cert.der", "/config.json", "/key.der"]


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
        ({"host": "b", "pasword": SECRET}, (), 'config.json: unknown field "pasword": remove it, or use one of'),
        ([SECRET], (), "config.json: not JSON"),
    ],
)
def test_errors(folder, fields, locals_, problem):
    assert refused(write(fields), *locals_).startswith(problem)


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


def test_no_configuration(folder):
    assert refused("none.json").startswith("no file none.json: write one, docs/configuration.md tells the fields")


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
    config = write({"host": "b", "wifi_ssid": "attic", "wifi_key": SECRET})
    git("add", config)
    assert refused(config).startswith("config.json holds wifi_key and git tracks it: move it, or `git rm --cached` it")


def test_the_keys_of_more_networks_are_secrets(repository):
    more = [{"ssid": "cellar", "key": SECRET}]
    config = write({"host": "b", "wifi_ssid": "attic", "wifi_networks": more})
    git("add", config)
    assert refused(config).startswith("config.json holds wifi_networks and git tracks it")
    assert SECRET not in refused(write({"host": "b", "wifi_ssid": "attic", "wifi_networks": more + [{"key": SECRET}]}))


def test_a_private_key_that_git_tracks_is_refused(repository):
    git("add", "key.pem")
    assert refused(write(MUTUAL), "ca.pem", "ca.pem", "key.pem").startswith("key.pem is a private key and git")


def test_a_secret_that_git_does_not_ignore_causes_a_warning(repository, capsys):
    config = write({"host": "b", "user": "u", "password": SECRET})
    settings(config)
    result = capsys.readouterr()
    assert result.err == "note: config.json holds password and git does not ignore it: list it in .gitignore\n"
    assert result.out == ""
    Path(".gitignore").write_text("config.json\n")
    settings(config)
    assert capsys.readouterr().err == ""


def test_a_configuration_without_secrets_may_be_tracked(repository, capsys):
    git("add", write(TLS))
    assert settings("config.json", "ca.pem")
    assert capsys.readouterr().err == ""

"""Passwords, TLS, and errors that end the collector."""

import re

import pytest
import trustme

from host_tests import mosquitto_lines
from host_tests.tools.fleet.collect.collecting import at, publish
from tools.peers.certificates import der, write
from tools.peers.mosquitto import only

SECRET = "the right one"
AUTHORITY = trustme.CA()


@pytest.fixture
def guarded(serve, tmp_path):
    """A broker with one user, "me"."""
    return serve(*only(tmp_path, {"me": SECRET}))


def test_password(guarded, collect, tmp_path):
    """From a file or from the environment."""
    file = tmp_path / "password"
    file.write_text(SECRET + "\n")
    options = *at(guarded), "--user", "me"
    assert collect(*options, "--password-file", file).connected().end() == 0
    assert collect(*options, env={"INFLIGHT_PASSWORD": SECRET}).connected().end() == 0


@pytest.mark.parametrize("password", ["wrong-secret", ""])
def test_wrong_password(guarded, collect, landing, password):
    program = collect(*at(guarded), "--user", "me", env={"INFLIGHT_PASSWORD": password})
    assert program.status() == 1
    assert re.search(r"FAILED: the broker at 127\.0\.0\.1:\d+ refuses user me: Not authorized", program.output())
    assert "wrong-secret" not in program.output()
    assert landing.read() == []


@pytest.fixture
def secure(serve, tmp_path):
    """secure(name, *lines) starts a broker with TLS; its certificate is for `name`."""
    return lambda name, *lines: serve(*mosquitto_lines.tls(tmp_path, AUTHORITY, name), *lines)


@pytest.fixture
def ca(tmp_path):
    """The file of the CA's certificate."""
    file = tmp_path / "ca"
    AUTHORITY.cert_pem.write_to_path(file)
    return file


@pytest.mark.parametrize("form", ["pem", "der"])
def test_tls(secure, collect, landing, ca, form):
    broker = secure("localhost")
    if form == "der":
        ca.write_bytes(der(AUTHORITY))
    program = collect("--broker", f"localhost:{broker.port}", "--ca", ca).connected()
    assert program.end() == 0


def test_much_data_over_tls(secure, collect, landing, ca):
    """TLS reads ahead. Its data is read although select() does not report the socket."""
    broker = secure("localhost")
    collect("--broker", f"localhost:{broker.port}", "--ca", ca).connected()
    publish(broker, b"x" * 3_000_000, *(b"%d" % n for n in range(3000)), ca=ca)
    landing.until(3001)
    assert landing.texts()[1:] == [str(n) for n in range(3000)]


def test_wrong_ca(secure, collect, ca):
    broker = secure("localhost")
    trustme.CA().cert_pem.write_to_path(ca)
    program = collect("--broker", f"localhost:{broker.port}", "--ca", ca)
    assert program.status() == 1
    assert re.search(r"FAILED: the certificate of the broker at localhost:\d+ is not trusted", program.output())


def test_wrong_host_name(secure, collect, ca):
    broker = secure("elsewhere.example")
    program = collect("--broker", f"localhost:{broker.port}", "--ca", ca)
    assert program.status() == 1
    assert "not valid for 'localhost'" in program.output()


def test_client_certificate(secure, collect, tmp_path):
    broker = secure("localhost", "require_certificate true")
    ca, certificate, key = write(tmp_path, AUTHORITY, "collector-0")
    options = "--broker", f"localhost:{broker.port}", "--ca", ca
    assert collect(*options, "--cert", certificate, "--key", key).connected().end() == 0
    collect(*options).until(r"no connection to the broker at localhost:\d+ \(.*certificate required")


@pytest.mark.parametrize(("code", "answer"), [(0x80, "refuses it"), (0, "grants QoS 0 only")])
def test_subscription_refused(scripted, collect, code, answer):
    def script(broker):
        broker.welcome()
        broker.grant(1, code, 1, 1)
        broker.goodbye()
        broker.cut()

    with scripted.play(script):
        program = collect(*at(scripted))
        assert program.status() == 1
    told = rf"FAILED: subscription to inflight/\+/status: the broker at 127.0.0.1:\d+ {answer}"
    assert re.search(told, program.output())

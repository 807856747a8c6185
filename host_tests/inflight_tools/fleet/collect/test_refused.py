"""Who may, and who is told why not."""

import re
import threading

import pytest
import trustme

from dev.certificates import der, write
from dev.reference.wire import publish as delivery
from host_tests import mosquitto_lines
from host_tests.broker import Broker
from host_tests.inflight_tools.fleet.collect.collecting import publish, until

SECRET = "the right one"
AUTHORITY = trustme.CA()


@pytest.fixture
def guarded(serve, tmp_path):
    """A broker that knows the user "me"."""
    return serve(*mosquitto_lines.only(tmp_path, "me", SECRET))


def test_password(guarded, collect, tmp_path):
    """From a file or from the environment."""
    file = tmp_path / "password"
    file.write_text(SECRET + "\n")
    options = "--broker", f"127.0.0.1:{guarded.port}", "--user", "me"
    assert collect(*options, "--password-file", file).connected().end() == 0
    assert collect(*options, env={"INFLIGHT_PASSWORD": SECRET}).connected().end() == 0


@pytest.mark.parametrize("password", ["wrong-secret", ""])
def test_wrong_password(guarded, collect, landing, password):
    program = collect("--broker", f"127.0.0.1:{guarded.port}", "--user", "me", env={"INFLIGHT_PASSWORD": password})
    assert program.status() == 1
    assert re.search(r"FAILED: the broker at 127\.0\.0\.1:\d+ refuses user me: Not authorized", program.said())
    assert "wrong-secret" not in program.said()
    assert landing.read() == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "no broker: name one with BROKER=host or host:port, or with CONFIG=config.json"),
        (("--broker", "x:y"), "BROKER=x:y: write a host, or host:port"),
        (("--broker", "x", "--root", "a/+"), "ROOT=a/+: the first levels of the devices' topics, without + and #"),
        (("--broker", "x", "--name", "a/b"), "NAME=a/b: letters, digits"),
        (("--broker", "x", "--share", "a/b"), "SHARE=a/b: letters, digits"),
        (("--broker", "x", "--ca", "/no/such/file"), "No such file or directory: '/no/such/file'"),
    ],
    ids=lambda value: "-".join(value[1::2]) if isinstance(value, tuple) else "",
)
def test_options_that_are_wrong(collect, options, said):
    program = collect(*options)
    assert program.status() == 1
    assert f"FAILED: {said}" in program.said() or said in program.said()
    assert len(program.said().splitlines()) == 1


def test_password_without_a_user(collect):
    program = collect("--broker", "x", env={"INFLIGHT_PASSWORD": SECRET})
    assert program.status() == 1
    assert "a password, but no user: name it with --user" in program.said() and SECRET not in program.said()


# --- TLS ---


@pytest.fixture
def secure(serve, tmp_path):
    """secure(certificate's name, *lines) is a broker with TLS."""

    def start(name, *lines):
        return serve(*mosquitto_lines.tls(tmp_path, AUTHORITY, name), *lines)

    return start


@pytest.fixture
def ca(tmp_path):
    """The file of our authority's certificate."""
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


def test_tls_carries_much(secure, collect, landing, ca):
    """TLS reads ahead: what it has is not forgotten while nothing more comes."""
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
    assert re.search(r"FAILED: the certificate of the broker at localhost:\d+ is not to be trusted", program.said())


def test_wrong_host_name(secure, collect, ca):
    broker = secure("elsewhere.example")
    program = collect("--broker", f"localhost:{broker.port}", "--ca", ca)
    assert program.status() == 1
    assert "not valid for 'localhost'" in program.said()


def test_client_certificate(secure, collect, tmp_path):
    broker = secure("localhost", "require_certificate true")
    ca, certificate, key = write(tmp_path, AUTHORITY, "collector-0")
    options = "--broker", f"localhost:{broker.port}", "--ca", ca
    assert collect(*options, "--cert", certificate, "--key", key).connected().end() == 0
    collect(*options).until(r"no connection to the broker at localhost:\d+ \(.*certificate required")


# --- a broker that plays a script ---


@pytest.fixture
def scripted():
    broker = Broker()
    yield broker
    broker.close()


@pytest.mark.parametrize(("code", "said"), [(0x80, "refuses it"), (0, "grants it at QoS 0 only")])
def test_subscription_refused(scripted, collect, code, said):
    def script(broker):
        broker.welcome()
        broker.grant(1, code, 1, 1)
        broker.goodbye()
        broker.cut()

    with scripted.play(script):
        program = collect("--broker", f"127.0.0.1:{scripted.port}")
        assert program.status() == 1
    assert re.search(rf"FAILED: subscription to inflight/\+/status: the broker at 127.0.0.1:\d+ {said}", program.said())


def test_topic_that_is_not_utf_8(scripted, collect, landing):
    """Against the standard; what cannot be refused for good is written down, or it came back for ever."""
    acknowledged = threading.Event()

    def script(broker):
        broker.welcome()
        broker.grant(1, 1, 1, 1)
        broker.send(delivery(b"inflight/\xff/status", b"1", qos=1, mid=7))
        assert broker.receive().mid == 7
        acknowledged.set()
        broker.goodbye()
        broker.cut()

    with scripted.play(script):
        program = collect("--broker", f"127.0.0.1:{scripted.port}")
        until(acknowledged.is_set, program.said)
        assert program.end() == 0
    assert landing.one()["topic"] == "inflight/\\xff/status"

"""Promise: the password, the Wi-Fi key and the private key are in no log, repr, exception or message. The tests of the
host tools are in inflight_tools: boards/test_image_settings.py, boards/test_deploy_birth.py and
fleet/collect/test_refused.py."""

import json
import subprocess
import traceback

import pytest

from config import ConfigError, load
from host_tests import processes
from host_tests.broker import PATIENCE_S, Automatic
from host_tests.waiting import wait_for
from inflight import AsyncClient, Client, Journal, RamFlash
from inflight.client.handlers import Message
from tools.reference.wire import connack
from tools.runtimes import device_run

RUNTIMES = "cpython micropython-x86"
SECRET = "open-sesame"
OPTIONS = {"user": "me", "password": SECRET, "clean_session": True}


def traceback_text(error):
    """The text of a traceback, causes included."""
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__context__) + repr(error.args)


@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_reprs(kind):
    client = kind("127.0.0.1", "d", **OPTIONS)
    for thing in (client, client.session, client.session, Message(client.session)):
        assert SECRET not in repr(thing) + str(thing)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"password": wrong} for wrong in ([SECRET], SECRET * 9000)),
        *({"user": user} for user in (None, SECRET + "\0", [SECRET])),
        {"buffer": bytearray(64)},
        {"password": SECRET * 100, "buffer": bytearray(256)},
        {"headers": "Authorization: Bearer " + SECRET, "path": "/mqtt"},
        {"headers": {"Authorization": SECRET.encode()}, "path": "/mqtt"},
        {"will": ("#", SECRET, 0, False)},
        *({"protocol_level": 6}, {"tls": True}),
    ],
    ids=lambda wrong: "-".join(wrong),
)
@pytest.mark.parametrize("kind", [Client, AsyncClient])
def test_exceptions_of_wrong_arguments(kind, wrong):
    with pytest.raises(ValueError) as raised:
        kind("127.0.0.1", "d", **{**OPTIONS, **wrong})
    assert SECRET not in repr(raised.value) + repr(raised.value.__context__)


@pytest.mark.parametrize("code", [4, 5])
def test_exceptions_and_log_of_a_refusal(broker, make, capfd, code):
    """Also in the message that is printed without on_error."""
    options = {"on_error": None, "backoff_ms": (60_000, 60_000)}  # it must not wait for another CONNACK
    client = make(broker.port, user="me", password=SECRET, **options)

    def script(b):
        b.called(password=SECRET.encode())
        b.send(connack(0, code))
        b.expect_close()

    with broker.play(script):
        client.run_for(1)
        while not broker.finished:
            client.run_for(5)
    captured = capfd.readouterr()
    assert "ConnectRefused" in captured.err and SECRET not in captured.out + captured.err


def test_exceptions_of_a_lost_connection(broker, make):
    client = make(broker.port, user="me", password=SECRET)

    def script(b):
        b.called()
        b.send(b"\xff" * 20)
        b.expect_close()

    with broker.play(script), pytest.raises(Exception) as raised:
        client.connect()
    assert SECRET not in traceback_text(raised.value)


@pytest.mark.parametrize("cut", range(2, 60, 7))
def test_a_configuration_that_is_no_json(tmp_path, cut):
    """The errors of the JSON parser quote the text."""
    file = tmp_path / "config.json"
    text = json.dumps({"host": "h", "user": "me", "password": SECRET, "wifi_ssid": "net", "wifi_key": SECRET})
    file.write_text(text[:-cut])
    with pytest.raises(ConfigError) as raised:
        load(str(file), "box")
    assert SECRET not in traceback_text(raised.value)


@pytest.fixture
def device(runtime, tmp_path):
    """device(**fields) starts the firmware as a process with this configuration."""

    def start(**fields):
        secrets = {"user": "me", "password": SECRET, "wifi_ssid": "net", "wifi_key": SECRET}
        config = {"host": "127.0.0.1", "interval_ms": 100, "health_ms": 1000, **secrets, **fields}
        (tmp_path / "config.json").write_text(json.dumps(config))
        own = {"INFLIGHT_HOME": str(tmp_path), "INFLIGHT_DEVICE_ID": "box"}
        env = {**device_run.application_environment(runtime), **own}
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        return subprocess.Popen([*runtime.command("200k"), "-m", "main"], env=env, **output)

    with processes.started(start, lambda process: (process.kill(), process.communicate())) as call:
        yield call


def test_messages_and_console_of_a_device(device):
    """Telemetry, status, health, replies and console: the secret is only in CONNECT."""
    with Automatic() as broker:
        process = device(port=broker.port)
        for name in ("ping", "interval", "nonsense"):
            broker.give(f"inflight/box/command/{name}", b"1", 2)
        wanted = {"telemetry", "status", "health", "reply/ping", "reply/interval", "reply/nonsense"}

        def arrived():
            assert process.poll() is None, process.communicate()[0]
            return wanted <= {message.topic.split("/", 2)[2] for message in list(broker.arrived)}

        wait_for(arrived, PATIENCE_S)
        broker.give("inflight/box/command/reboot", b"", 2)
        output = process.communicate(timeout=240)[0]
        assert all(SECRET.encode() not in message.payload for message in broker.arrived)
        assert broker.connections[0].packets[0].password == SECRET.encode()
        assert SECRET not in output


WRONG = {"qos": 9, "tls_ca": "missing", "pasword": SECRET, "user": None, "port": SECRET}


@pytest.mark.parametrize("name, value", [*WRONG.items(), ("tls_ca", "config.json")])
def test_console_of_a_device_that_cannot_start(device, name, value):
    output = device(**{"port": 1, name: value}).communicate(timeout=240)[0]
    assert output.startswith("inflight: ") and SECRET not in output


def test_console_of_a_device_without_a_broker(device):
    process = device(port=1)
    line = process.stdout.readline()
    assert line.startswith("inflight: ") and SECRET not in line


def test_a_journal_contains_no_password(make, broker):
    """It contains messages and the client id."""
    flash = RamFlash(4, 1024)
    client = make(broker.port, flash, user="me", password=SECRET)
    client.publish("t", "x", 1)
    data = bytearray(4096)
    flash.readblocks(0, data)
    assert b"\0\1t" in data and SECRET.encode() not in data
    assert Journal(flash).live == 1

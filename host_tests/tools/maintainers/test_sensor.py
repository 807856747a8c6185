"""`make sensor`: this machine as several devices, each with a home of its own."""

import contextlib
import json
import os
import signal
import subprocess
import sys

import pytest

from host_tests.waiting import wait_for
from inflight_tools.cache import cache_dir
from tools.peers import mosquitto
from tools.peers.subscriber import Subscriber
from tools.runtimes.device_run import application
from tools.setup.common import CHECKOUT

WAIT_S = 60


@pytest.fixture
def start(tmp_path):
    """start(word, ...): the process of `make sensor` with these options, whose home folder is tmp_path."""
    env = {**os.environ, "HOME": str(tmp_path), "INFLIGHT_HOME": "", "INFLIGHT_CACHE": str(cache_dir())}
    command = [sys.executable, "-m", "tools.demo.sensor"]
    application()  # else the first device builds it
    with contextlib.ExitStack() as stack:

        def begin(*words, **more):
            options = {"cwd": CHECKOUT, "env": env | more, "start_new_session": True, "text": True}
            pipe = subprocess.PIPE
            process = subprocess.Popen([*command, *map(str, words)], stdout=pipe, stderr=subprocess.STDOUT, **options)
            stack.callback(end, process)
            return process

        yield begin


def end(process):
    """As Ctrl-C."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGINT)
    process.wait()
    process.stdout.close()


def refused(process):
    """What a process tells that ends at once, without a frame around it."""
    text = process.stdout.read()
    process.wait()
    assert process.returncode == 2, text
    return " ".join(text.replace("│", " ").split())


def test_devices_keep_what_commands_have_changed(start, tmp_path):
    if reason := mosquitto.unavailable():
        pytest.skip(reason)
    config = tmp_path / "sensor.json"
    with mosquitto.Mosquitto(tmp_path / "broker") as broker, Subscriber(broker.port, "inflight/#") as subscriber:
        fields = {"host": "127.0.0.1", "port": broker.port, "device": "attic", "interval_ms": 100}
        config.write_text(json.dumps(fields))

        def statuses(device):
            found = [one.fields for one in subscriber.find(f"inflight/{device}/status")]
            found = {fields["seq"]: fields for fields in found if fields["state"] == "online"}  # one may come twice
            return list(found.values())

        def comes(device, count, **told):
            found = wait_for(lambda: statuses(device)[count - 1 :], WAIT_S, f"start {count} of {device}")
            assert found[0].items() >= told.items() and found[0].get("group") == told.get("group")
            return found[0]

        attic = start("--config", config)
        start("--config", config, "--device", "cellar")
        first, other = comes("attic", 1), comes("cellar", 1)
        assert first["epoch"] != other["epoch"]
        again = refused(start("--device", "attic"))
        assert "attic runs already" in again and "needs a DEVICE= of its own" in again
        (tmp_path / "other.json").write_text(json.dumps(fields | {"group": "blue"}))
        own = tmp_path / ".inflight/attic/config.json"
        before = own.read_text()
        assert "attic runs already" in refused(start("--config", tmp_path / "other.json")) and own.read_text() == before
        subscriber.publish("inflight/attic/command/set", '{"group": "green"}')
        comes("attic", 2, group="green")
        end(attic)
        attic = start("--config", config)
        assert comes("attic", 3, group="green", epoch=first["epoch"])["seq"] > first["seq"]
        end(attic)
        config.write_text(json.dumps(fields | {"group": "red"}))
        attic = start("--config", config)
        comes("attic", 4, group="red", epoch=first["epoch"])
        os.kill(attic.pid, signal.SIGTERM)  # of it alone: the device ends, too
        attic.wait()
        start("--config", config)
        comes("attic", 5, group="red", epoch=first["epoch"])
        assert "is the home of attic: run make sensor DEVICE=attic, or" in refused(
            start("--config", config, "--device", "cellar", INFLIGHT_HOME=str(tmp_path / ".inflight/attic"))
        )


def test_a_device_that_is_not_there(start, tmp_path):
    assert "no device nobody in" in refused(start("--device", "nobody"))
    assert ".. names no folder of its own" in refused(start("--device", ".."))
    assert not (tmp_path / ".inflight/nobody").exists()
    assert "which device? make sensor CONFIG=config.json" in refused(start())
    (tmp_path / "sensor.json").write_text('{"host": "b", "pasword": "x"}')
    assert 'unknown field "pasword"' in refused(start("--config", tmp_path / "sensor.json"))

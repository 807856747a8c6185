"""`inflight rollout` to unix boards over mosquitto: a good release reaches all, a bad one the first only."""

import contextlib
import json
import threading

import pytest
from typer.testing import CliRunner

from host_tests.waiting import wait_for
from inflight_tools import cli

NAMES = [f"box{i}" for i in range(4)]


@pytest.fixture
def fleet(device_of):
    """Devices that are supervised by a thread of their own."""
    devices = [device_of(name) for name in NAMES]
    stop = threading.Event()

    def supervise():
        while not stop.wait(0.01):
            for device in devices:
                device.step()

    thread = threading.Thread(target=supervise)
    thread.start()
    yield devices
    stop.set()
    thread.join()


@pytest.fixture
def rollout(tmp_path, broker, release_of):
    """rollout(number, fault, words): result of the command, lines of JSON."""
    (tmp_path / "config.json").write_text(json.dumps({"host": "127.0.0.1", "port": broker.port}))

    def call(number=None, fault=None, *words):
        if number:
            (tmp_path / "x.release").write_bytes(release_of(number, fault, trial_s=2).pack())
            words = (str(tmp_path / "x.release"), *words)
        done = CliRunner().invoke(cli.build(), ["rollout", *words, "--config", str(tmp_path / "config.json"), "--json"])
        return done, [json.loads(line) for line in done.stdout.splitlines()]

    return call


def firmware(rollout):
    """{device: firmware}, as the fleet's own messages say."""
    _, lines = rollout()
    return {name: device["firmware"] for name, device in lines[-1]["devices"].items()} if lines else {}


def test_a_good_release_reaches_all_and_a_bad_one_only_the_first(fleet, rollout):
    wait_for(lambda: firmware(rollout) == dict.fromkeys(NAMES, "0.1.0"), 60)
    done, lines = rollout(1, None, "--wave", "50")
    assert done.exit_code == 0, done.output
    good = [line["device"] for line in lines[:-1] if line["state"] == "good"]
    assert good[0] == "box0" and sorted(good) == NAMES
    begun = [line["device"] for line in lines[:-1] if line["state"] == "fetch"]
    assert begun[0] == "box0" and lines.index({"device": "box0", "state": "good"}) < min(
        lines.index({"device": name, "state": "fetch"}) for name in NAMES[1:]
    )
    wait_for(lambda: firmware(rollout) == dict.fromkeys(NAMES, "0.1.0+1"), 60)

    done, lines = rollout(2, "cannot connect")
    assert done.exit_code == 1 and lines[-1]["stopped"]
    assert {line["device"] for line in lines[:-1]} == {"box0"}
    assert lines[-2]["state"] == "bad" and lines[-2]["reason"] == "no connection"
    wait_for(lambda: firmware(rollout) == dict.fromkeys(NAMES, "0.1.0+1"), 60)

    # Who runs it already is left alone; patterns choose devices.
    done, lines = rollout(3, None, "--device", "box[01]", "--canary", "2")
    assert done.exit_code == 0 and {line["device"] for line in lines[:-1]} == {"box0", "box1"}
    done, lines = rollout(3, None)
    assert done.exit_code == 0 and {line["device"] for line in lines[:-1]} == {"box2", "box3"}


def test_without_devices_or_broker_it_says_so(rollout, broker):
    done, _ = rollout(1)
    assert done.exit_code == 1 and "no devices at inflight/+/status" in done.stderr
    broker.kill()
    with contextlib.suppress(OSError):
        done, _ = rollout(1)
        assert done.exit_code == 1 and done.stderr.startswith("error: ")

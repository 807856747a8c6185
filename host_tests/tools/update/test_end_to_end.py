"""A unix board updates itself over mosquitto: what it fetches, tries, keeps and gives back; killed at any time. What it
refuses, and what becomes of each byte, device/firmware tests by messages; here the processes do it together."""

import json
import random
import time

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa

from host_tests.firmware.conftest import packs
from host_tests.thorough import more
from host_tests.tools.update.conftest import FAULTS, PATIENCE_S
from host_tests.waiting import wait_for
from inflight import __version__ as VERSION
from inflight_tools.update import keys
from inflight_tools.update.release import Release
from tools.peers.subscriber import Subscriber
from update_record import STARTS, load

WORKER = "updates"  # begins early: each test lasts long
_FAULT = "cannot connect"


def outcome(number, device="box"):
    """True for the event that ends the update of `device` to that release."""
    return lambda event: (
        event[:2] == (device, "release")
        and event[2].get("release") == number
        and event[2].get("state") in ("good", "bad", "refused")
    )


def told(state, firmware, device="box"):
    """True for a status of `device`."""
    return lambda event: (
        event[:2] == (device, "status")
        and (event[2].get("state"), event[2].get("firmware")) == (state, VERSION + firmware)
    )


def refused(reason):
    """True for the event that tells why an announcement is no outcome, or that the release is refused."""
    return lambda event: event[1] == "release" and reason in event[2].get("reason", "")


def states(seen):
    found = [fields["state"] for _, kind, fields in seen if kind == "release"]
    return [state for k, state in enumerate(found) if state not in found[:k]]  # at least once each


def test_releases_are_fetched_tried_and_kept_and_only_what_differs_is_fetched(device_of, server, release_of, events):
    device = device_of()
    events([device], told("online", ""))
    server.announce("box", release_of(1))
    seen = events([device], outcome(1))
    assert states(seen) == ["fetch", "trial", "good"], seen[-1]
    device.kill()
    events([device], told("online", "+1"))
    server.announce("box", release_of(2))
    asked = []
    seen = events([device], outcome(2), lambda event: asked.append(event) if event[1] == "want" else None)
    assert seen[-1][2]["state"] == "good" and any(map(told("online", "+2"), seen)), seen[-1]
    assert sorted(path.name for path in device.home.glob("*.image")) == ["a.image", "b.image"]
    # Beside the index one module: the others are taken from the running application.
    assert (device.home / "b.image").read_bytes() == release_of(2).image and len(asked) < 10


@pytest.mark.parametrize("fault", [_FAULT, *more(*(fault for fault in FAULTS if fault != _FAULT))])
def test_a_release_that_does_not_work_is_rolled_back(device_of, server, release_of, events, fault):
    device = device_of()
    server.announce("box", release_of(1))
    events([device], outcome(1))
    server.announce("box", release_of(2, fault))
    trial = device.starts + 1

    def supervise(event):
        if fault == "hangs" and event[1] == "release" and event[2]["state"] == "trial":
            for k in range(STARTS):  # a supervisor that notices
                device.process.wait(PATIENCE_S)
                device.step()
                wait_for(lambda k=k: load(str(device.home)).starts > k, PATIENCE_S)
                device.kill("watchdog")

    (_, _, fields) = events([device], outcome(2), supervise)[-1]
    assert fields["state"] == "bad", fields
    reasons = {"crashes": "in any start", "hangs": "watchdog", "cannot connect": "no connection"}
    assert reasons.get(fault, "load: OSError") in fields["reason"]
    events([device], told("online", "+1"))
    assert device.starts > trial
    # It is not tried again, also if it is announced again.
    device.kill()
    before = device.starts
    events([device], told("online", "+1"))
    server.announce("box", release_of(3))
    assert events([device], outcome(3))[-1][2]["state"] == "good"
    assert device.starts == before + 2


def test_what_does_not_fit_is_refused_and_changes_nothing(device_of, server, release_of, events, key):
    device = device_of()
    server.announce("box", release_of(5))
    events([device], outcome(5))
    good = release_of(6)
    body = json.dumps(good.fields | {"blocks": 10**9}).encode()
    for reason, release in (
        ("not signed", release_of(6, signer=rsa.generate_private_key(65537, keys.BITS))),
        ("not newer than 5", release_of(4)),
        ("for the board esp32", release_of(6, board="esp32")),
        ("Damaged: index", Release(good.announcement, b"?" + good.image[1:])),
        ("too large", Release(body + keys.sign(key, body), good.image)),
    ):
        server.announce("box", release)
        events([device], refused(reason))
    starts = device.starts
    device.kill()
    events([device], told("online", "+5"))
    assert device.starts == starts + 1


@pytest.mark.parametrize("fault", [None, *more(_FAULT)])
def test_killing_it_at_any_time_changes_neither_outcome_nor_messages(
    device_of, server, broker, release_of, events, fault
):
    dice = random.Random(str(fault))
    device = device_of()
    arrived = Subscriber(broker.port, "inflight/box/#")
    with arrived:
        server.announce("box", release_of(1))
        events([device], outcome(1))
        server.announce("box", release_of(2, fault, trial_s=2))
        kills = {"want": 4, "trial": 2, "online": 3}

        def kill(event):
            _, kind, fields = event
            what = kind if kind == "want" else fields.get("state")
            if kills.get(what):
                kills[what] -= 1
                time.sleep(dice.uniform(0, 0.2))  # anywhere in what it does next
                device.kill()

        fields = events([device], outcome(2), kill)[-1][2]
        assert fields["state"] == ("bad" if fault else "good"), fields
        assert sum(kills.values()) < 6
        accepted = device.accepted()
        wait_for(lambda: not accepted - heard(arrived), PATIENCE_S, lambda: accepted - heard(arrived))


def heard(subscriber):
    """{(sequence number, topic)} of a device's messages that arrived."""
    found = set()
    for message in list(subscriber.messages):
        topic = message.topic.split("/", 2)[2]
        for body in packs(message) if topic in ("telemetry", "status", "health", "release") else ():
            body = body[0] if isinstance(body, list) else body
            if "seq" in body:
                found.add((body["seq"], topic))
    return found


@pytest.mark.parametrize("fault", [None, *more("breaks a sensor")])
def test_a_sensor_that_sleeps_fetches_and_tries_in_its_wakes(device_of, server, release_of, events, monkeypatch, fault):
    device = device_of(sleep_ms=200, awake_ms=1000, timeout_ms=1000)
    answered = []
    give = server.give

    def once_a_wake(name, wanted):
        if device.starts not in answered:
            answered.append(device.starts)
            give(name, wanted)

    monkeypatch.setattr(server, "give", once_a_wake)
    server.announce("box", release_of(1, fault))
    seen = events([device], outcome(1))
    assert states(seen) == ["fetch", "trial", "bad" if fault else "good"], seen[-1]
    assert len(answered) > 1 and device.starts > len(answered)
    events([device], told("asleep", "" if fault else "+1"))


def test_replaced_keys_stay_with_later_releases(device_of, server, release_of, events):
    device = device_of()
    new = rsa.generate_private_key(65537, keys.BITS)
    for made in (release_of(1, accept=new), release_of(2, signer=new)):
        server.announce("box", made)
        assert events([device], outcome(made.number))[-1][2]["state"] == "good"
    server.announce("box", release_of(3))
    events([device], refused("not signed"))

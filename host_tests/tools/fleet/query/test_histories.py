"""Collectors that start, stop and lose their sessions at any time, beside devices whose every fate is known. What the
report proves is so, and it is green only if nothing is missing. The judge has none of the report's rules.

`make histories HISTORIES=1000` plays more of them."""

import os
import random
from collections import Counter

import pytest

from host_tests.tools.fleet.tables import AT
from host_tests.tools.fleet.without_spark import Fleet, row
from inflight_tools.fleet.query import facts as facts_of

SEED, HISTORIES = int(os.environ.get("INFLIGHT_SEED") or 0), int(os.environ.get("INFLIGHT_HISTORIES") or 4)


class World:
    """A broker with a queue for each session, and its clients. now: in s since 1970, each time once."""

    def __init__(self, seed):
        self.dice = random.Random(seed)
        self.trouble = self.dice.choice((0, 0.003, 0.02))
        self.sessions, self.connected, self.kept, self.rows = {}, set(), {}, []
        self.landed, self.counted, self.given_up = set(), set(), set()  # counted: somebody had subscribed
        names = "abc"[: self.dice.choice((1, 1, 2, 3))]
        starts = {name: self.dice.choice((0, 300, 1000, 2000, 4000)) for name in names}
        self.devices = [Device(self, f"d{n}") for n in range(self.dice.choice((1, 2, 12)))]
        for second in range(0, 6000, 10):
            self.now = AT + second
            for name, start in starts.items():
                self.collect(name, second, start)
            for device in self.devices:
                device.step(second)
        for name in self.connected:
            self.take(name, mark=True)
        self.retired = sorted(name for name in self.sessions if name not in self.connected and self.chance(0.7))

    def chance(self, of):
        return self.dice.random() < of

    def collect(self, name, second, start):
        if name in self.connected:
            if self.chance(self.trouble):
                self.connected.remove(name)
            self.take(name, second % 60 == 0)
        elif second == start or (second > start and self.chance(0.02)):
            self.sessions.setdefault(name, [(*message, True) for message in self.kept.values()])
            self.connected.add(name)
        elif self.chance(self.trouble):
            self.sessions.pop(name, None)

    def take(self, name, mark):
        if mark:
            body = {"sent": round(1000 * self.now), "run": 1, "n": round(1000 * self.now)}
            self.sessions[name].append((f"{name}/collector", body, None, False))
        for topic, body, key, retain in self.sessions[name]:
            self.now += 0.001
            self.rows.append(row(topic, body, self.now, name, retain))
            self.landed |= {key} - {None}
        self.sessions[name].clear()

    def publish(self, topic, body, key, retain):
        if self.rows or self.sessions:
            self.counted.add(key)
        if retain:
            self.kept[topic] = (topic, body, key)
        for queue in self.sessions.values():
            if not self.chance(self.trouble):  # the broker is killed before it saves the message
                queue.append((topic, body, key, False))

    def fate(self, key):
        if key in self.landed:
            return "delivered"
        waits = any(key == one[2] for name, all in self.sessions.items() if name not in self.retired for one in all)
        return "waits" if waits else "lost" if key in self.counted else "before"


class Device:
    def __init__(self, world, name):
        self.world, self.name, self.epoch, self.seq, self.pending = world, name, 1, 0, []
        self.interval, self.begins = world.dice.choice((10, 30, 300)), world.dice.choice((0, 0, 1000, 3000))
        self.on, self.linked, self.acknowledged = False, True, set()

    def step(self, second):
        chance, trouble = self.world.chance, self.world.trouble
        if not self.on and second >= self.begins and chance(0.2):
            self.on, self.linked, self.started, self.accepted, self.dropped = True, True, second, 0, 0
            self.accept("status", second, {"state": "online"})
        if not self.on:
            return
        if chance(trouble * (1 if self.linked else 20)):
            self.linked = not self.linked
            if self.linked:
                self.accept("status", second, {"state": "online"})
            else:
                self.world.publish(f"{self.name}/status", {"state": "offline"}, None, True)
        if second % self.interval == 0:
            counters = {"accepted": self.accepted, "dropped": self.dropped}
            told = "health", {"up": second - self.started, "counters": counters}
            kind, body = told if chance(0.3) else ("telemetry", {"bt": 0, "n": "a", "v": 1})
            self.accept(kind, second, body)
        while self.pending and self.linked:
            kind, body, key = self.pending[0]
            self.world.publish(f"{self.name}/{kind}", body, key, kind == "status")
            if chance(trouble):  # the acknowledgement does not arrive
                break
            self.acknowledged.add(key)
            self.pending.pop(0)
        if chance(trouble):
            self.on = False
            if self.linked:
                self.world.publish(f"{self.name}/status", {"state": "offline"}, None, True)
            if chance(0.1):  # it gets another journal
                self.world.given_up |= {key for _, _, key in self.pending}
                self.epoch, self.seq, self.pending = self.epoch + 1, 0, []

    def accept(self, kind, second, body):
        if len(self.pending) > 20:
            self.world.given_up.add(self.pending.pop(0)[2])
            self.dropped += 1
        body |= {"seq": self.seq, "epoch": self.epoch}
        if kind != "telemetry":
            body["oldest"] = self.pending[0][2][2] if self.pending else self.seq
        key = (self.name, self.epoch, self.seq)
        self.pending.append((kind, [body] if kind == "telemetry" else body, key))
        self.seq, self.accepted = self.seq + 1, self.accepted + 1


def judged(seed, folder):
    """Judges what is told of a history. Returns how often it is told."""
    world, fleet = World(seed), Fleet(folder)
    fleet.batch(world.rows)
    how = {"now": world.now + 1, "grace_s": 3600, "retired": world.retired}
    with facts_of.judged(fleet.root, "inflight", **how) as (database, facts):
        facts = facts_of.gathered(database, facts)
        runs = database.run("SELECT *, 'delivered', true FROM ranges UNION ALL FROM missing").fetchall()
    told, arrived = Counter([facts["judgement"]["kind"]]), set()
    for device, epoch, lo, hi, place, proved in runs:
        told[place, proved] += hi - lo + 1
        keys = {(device, epoch, n) for n in range(lo, hi + 1)}
        arrived |= keys if place == "delivered" else set()
        if place == "gone" and proved:
            assert {world.fate(key) for key in keys - world.given_up} <= {"lost"}, (seed, device, lo, hi)
    assert arrived == world.landed
    if facts["judgement"]["kind"] == "good":
        last = {
            (device, epoch): max(key[2] for key in arrived if key[:2] == (device, epoch)) for device, epoch, *_ in runs
        }
        ended = {one["device"] for one in facts["devices"] if one["state"] == "offline" or one["silent"]}
        all = {key for one in world.devices for key in one.acknowledged} | world.given_up
        # A device that is there may have lost what it sent a moment ago.
        assert {one for one in all if one[0] in ended or one[2] <= last.get(one[:2], -1)} <= world.landed, seed
    for one in facts["devices"]:
        mine = {key for key in world.counted | world.given_up if key and key[0] == one["device"]}
        lost = sum(key in world.given_up or world.fate(key) == "lost" for key in mine)
        assert one["lost"] - one["guessed"] <= lost, (seed, one["device"])
    return told


@pytest.mark.parametrize("seed", range(SEED, SEED + HISTORIES))
def test_what_is_proved_is_so(seed, tmp_path):
    judged(seed, tmp_path)

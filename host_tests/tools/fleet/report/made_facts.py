"""Facts about an invented fleet."""

import copy
import math
import random
from collections import Counter

START = 1_700_000_000
_WORDS = ("attic", "cellar", "roof", "garage", "tank", "office", "barn", "pump", "shed", "hall")
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror='alert(2)'>\"'& "
    "\u202egnp.exe\u2066 \x00\x1b[2J \u2028 \u05e9\u05dc\u05d5\u05dd \ud800"
)


def empty():
    """Without any message."""
    names = ("devices", "accepted", "delivered", "lost", "given_up", "on_way", "on_device",
             "guessed", "silent", "repeated", "doubled", "dead_letters", "conflicts",
             "before", "measurements", "restarts", "reconnects", "resends", "outbox_full",
             "nearly_full", "tails", "impossible")  # fmt: skip
    fleet = {**dict.fromkeys(names, 0), "latency_ms": None}
    return {
        "made": float(START), "root": "inflight", "grace_s": 3600, "since": None, "until": None, "outside": None,
        "fleet": fleet,
        "unread": {"files": 0, "bytes": 0, "stale": 0}, "collectors": [], "differences": [],
        "counters": [], "batch": -1, "asked": [None, None],
        "timeline": {"step_s": 60, "delay_s": 60, "points": []},
        "gave_up": dict.fromkeys(("erased", "dropped", "damaged", "skipped"), 0), "groups": [], "rollouts": [],
        "events": [], "devices": [], "measurements": {}, "trends": {}, "dead_letters": [], "versions": [],
    }  # fmt: skip


def device(name, accepted=100, **other):
    """A device without problems, except for the fields `other`."""
    made = {
        "device": name, "state": "online", "since": START + 40, "seen": START + 3500, "accepted": accepted,
        "delivered": accepted, "lost": 0, "before": 0,
        "given_up": 0, "on_way": 0, "on_device": 0, "guessed": 0,
        "gave_up": {"erased": 0, "dropped": 0, "thinned": 0, "damaged": 0, "skipped": 0},
        "repeated": 0, "conflicts": 0, "dead_letters": 0,
        "epochs": 1, "silent": 0,
        "restarts": 0, "reconnects": 0, "resends": 0, "outbox_full": 0, "resets": {"power on": 1},
        "latency_ms": {"p50": 41.0, "p95": 180.5, "p99": 2400.0},
        "journal": {"live": 2, "used": 640, "limit": 49152, "erases": 31, "damaged": 0}, "heap": 113_408, "rssi": -61,
        "firmware": "0.1.0", "errors": {}, "flags": [], "holds_s": 11_000.0, "nearly_full": False, "safe": False,
        "tail": False, "retired": False, "note": None, "former": [],
        "board": "esp32", "micropython": "1.28.0", "group": "north",
    }  # fmt: skip
    return {**made, **other}


def add_up(facts):
    """Computes the fleet's sums from its devices."""
    others = ("devices", "doubled", "measurements", "silent", "tails", "impossible")
    for name, value in facts["fleet"].items():
        if isinstance(value, int) and name not in others:
            facts["fleet"][name] = sum(one[name] for one in facts["devices"])
    facts["fleet"]["devices"] = len(facts["devices"])
    running = Counter(one["firmware"] for one in facts["devices"])
    facts["versions"] = [{"firmware": firmware, "devices": n} for firmware, n in running.most_common()]
    facts["gave_up"] = {name: sum(one["gave_up"][name] for one in facts["devices"]) for name in facts["gave_up"]}
    facts["fleet"]["silent"] = sum(one["silent"] > 0 for one in facts["devices"])
    return facts


def fleet(devices=50, seed=1, minutes=150):
    """Nothing is lost, in spite of restarts and an outage."""
    dice = random.Random(seed)
    facts = empty()
    facts["devices"] = [_some(dice, n) for n in range(devices)]
    add_up(facts)
    facts["fleet"]["measurements"] = 3 * facts["fleet"]["accepted"]
    facts["fleet"]["latency_ms"] = {"p50": 38.0, "p95": 212.0, "p99": 41_300.0}
    facts.update(since=START, until=START + 60 * minutes, made=START + 60.0 * minutes + 12)
    facts["timeline"]["points"] = [_point(dice, n, minutes, devices) for n in range(minutes)]
    names = [one["device"] for one in facts["devices"]]
    facts["events"] = [_event(dice, names, START + 60 * minutes - 9 * n) for n in range(400)]
    facts["measurements"] = {name: _measured(dice, minutes) for name in names[:8]}
    facts["dead_letters"] = [
        {"reason": "not UTF-8", "count": 12, "first": START + 100, "last": START + 900,
         "topic": "inflight/attic-1/telemetry", "content_type": "application/cbor", "example": "\\xff\\xfe\\x00"},
        {"reason": "seq is no number", "count": 3, "first": START + 200, "last": START + 300,
         "topic": "inflight/roof-3/telemetry", "content_type": None,
         "example": '[{"bn":"urn:dev:mac:00:","n":"t","v":21.5,"seq":"x"}]'},
    ]  # fmt: skip
    facts["fleet"]["dead_letters"] = 15
    none = dict.fromkeys(("silent", "nearly_full", "lost", "dead_letters"), 0)
    facts["groups"] = [none | {"group": "north", "devices": devices - 1}, none | {"group": "unknown", "devices": 1}]
    return facts


def _some(dice, n):
    cuts = dice.randint(0, 9)
    other = {
        "repeated": dice.randint(0, 6), "restarts": cuts, "reconnects": cuts + dice.randint(0, 9),
        "resends": dice.randint(0, 40), "resets": {"power on": cuts + 1, "watchdog": n % 2},
        "seen": START + 60 * 150 - dice.randint(1, 90), "rssi": -dice.randint(40, 88),
    }  # fmt: skip
    if n == 0:
        other.update(flags=["two boards, one id", "clock wrong"], errors={"dht22": "OSError: [Errno 110] ETIMEDOUT"})
    if n == 1:
        journal = {"live": 340, "used": 45_000, "limit": 49152, "erases": 911, "damaged": 1}
        other.update(state="offline", journal=journal, nearly_full=True, holds_s=1900.0, safe=True)
    if n == 2:
        other.update(state="asleep", heap=None, rssi=None, latency_ms=None, journal=None, firmware=None)
        other.update(holds_s=None, board=None, micropython=None, group=None)
    return device(f"{_WORDS[n % 10]}-{n}", dice.randint(120, 3000), **other)


def _point(dice, n, minutes, devices):
    """The broker is down for 14 minutes; then the backlog arrives."""
    away, back = minutes // 3, minutes // 3 + 14
    usual = 6 * devices + dice.randint(-20, 20)
    received, backlog = (0, 0) if away <= n < back else (usual, 0)
    if back <= n < back + 6:
        backlog = (back + 6 - n) * 3 * devices
        received += backlog
    cut = dice.random() < 0.2
    return {
        "t": START + 60 * n, "received": received, "backlog": backlog,
        "repeated": dice.randint(1, 9) if n == back or cut else 0,
        "restarts": dice.choice((1, 1, 2, 7)) if cut else 0, "offline": devices if n == away else int(cut),
        "dead_letters": 5 if n in (20, 21, 110) else 0, "gone": 3 if n == back else 0,
    }  # fmt: skip


def _event(dice, names, t):
    what, detail = dice.choice((("start", "power on"), ("offline", ""), ("online", ""), ("lost journal", "new epoch")))
    return {"t": t, "device": dice.choice(names), "what": what, "detail": detail}


def _measured(dice, minutes):
    return [_series(dice, minutes, *one) for one in (("temperature", "Cel", 21, 3), ("humidity", "%RH", 48, 9),
                                                    ("pressure", "Pa", 101_325, 60))]  # fmt: skip


def _series(dice, minutes, name, unit, middle, swing):
    points = []
    for n in range(minutes):
        if not minutes // 3 <= n < minutes // 3 + 14:
            mean = middle + swing * math.sin(n / 23) + dice.gauss(0, swing / 20)
            points.append([START + 60 * n, mean, mean - swing * dice.random() / 6, mean + swing * dice.random() / 6])
    means = sorted(point[1] for point in points)
    return {
        "name": name, "unit": unit, "count": 6 * len(points), "points": points,
        "min": min(p[2] for p in points), "max": max(p[3] for p in points), "mean": sum(means) / len(means),
        "p50": means[len(means) // 2], "p95": means[int(len(means) * 0.95)],
    }  # fmt: skip


def losing(lost=3, doubled=0, on_way=0, **changes):
    """The same fleet, but its first device has lost messages."""
    facts = copy.deepcopy(fleet(**changes))
    worst = facts["devices"][0]
    worst.update(lost=lost, on_way=on_way, delivered=worst["accepted"] - lost - on_way)
    dead = facts["fleet"]["dead_letters"]
    add_up(facts)["fleet"].update(doubled=doubled, dead_letters=dead)
    return facts


def hostile():
    """Every text that a sender can choose is an attack."""
    facts = fleet(3)
    facts["root"] = HOSTILE
    texts = dict.fromkeys(("state", "firmware", "board", "micropython", "group"), HOSTILE)
    facts["devices"] = [
        device(HOSTILE, flags=[HOSTILE], errors={HOSTILE: HOSTILE}, resets={HOSTILE: 1}, **texts),
        device("x" * 65_000, heap=math.nan, rssi=math.inf, seen=1e30, since=math.nan),
    ]
    facts["events"] = [{"t": START, "device": HOSTILE, "what": HOSTILE, "detail": HOSTILE}]
    facts["groups"][0]["group"] = HOSTILE
    one = _series(random.Random(1), 40, HOSTILE, HOSTILE, 1, 1)
    one["points"][3:5] = [[START + 200, math.nan, math.inf, 1], [START + 230, 1, 0.5, 1e300]]
    facts["measurements"] = {HOSTILE: [one], "__proto__": [{**one, "points": []}]}
    letter = dict.fromkeys(("reason", "topic", "content_type"), HOSTILE)
    facts["dead_letters"] = [letter | {"count": 1, "first": START, "last": 4e18, "example": HOSTILE * 9}]
    return add_up(facts)


MADE = {"complete": fleet(), "losing": losing(3, doubled=2, on_way=4), "hostile": hostile(), "empty": empty()}

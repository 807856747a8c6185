"""Rules of one's own, on the unix board: what they set, and what becomes of their errors."""

import sys
import types

import pytest

from host_tests.docs.pages import EXAMPLES

RUNTIMES = "micropython-x86"
MORE_RUNTIMES = "cpython"

RULES = next(path for path in EXAMPLES if path.stem == "rules")
RELAY = {"driver": "file", "name": "relay"}
ATTIC = {"driver": "series", "name": "attic", "report_on_change": 0.5, "check_ms": 50}
# Drivers of one's own, too: a sensor that reads what the file `degrees` says, and an actuator that writes the file
# `relay`.
DRIVERS = {
    "sensor_series": """
FIELDS = {}

class Driver:
    def __init__(self, fields, name):
        self._name = name

    def read(self):
        with open("HOME/degrees") as f:
            yield self._name, "Cel", float(f.read())
""",
    "actuator_file": """
FIELDS = {}

class Driver:
    KIND = None
    ON = {"state": "on"}
    OFF = {"state": "off"}

    def __init__(self, fields, name):
        pass

    def change(self, text, state):
        if text not in ("on", "off"):
            raise ValueError("write on or off")
        return {"state": text}

    def set(self, state):
        with open("HOME/relay", "a") as f:
            f.write(state["state"] + " ")
""",
}


@pytest.fixture
def own(machine, broker):
    """own(rules): the device has the module `rules` of that text, and runs. Returns its folder."""

    def start(rules, **fields):
        folder = machine.home / "own"
        folder.mkdir()
        for name, text in {**DRIVERS, "rules": rules}.items():
            (folder / f"{name}.py").write_text(text.replace("HOME", str(machine.home)))
        (machine.home / "degrees").write_text("21.5")
        machine.search.append(str(folder))
        machine.configure(port=broker.port, sensors=[ATTIC], actuators=[RELAY], health_ms=1_000, **fields)
        machine.start()

    return start


def test_above_30_degrees_the_relay_is_on(own, machine, broker, published):
    """Whoever looks at the state sees it; nothing is written or published while it stays the same. The interval is
    an hour: rules are called with what changes."""
    own(RULES.read_text(), interval_ms=3_600_000)

    def states():
        found = {body["seq"]: body["state"] for body in published("actuator/relay")}
        return [found[seq] for seq in sorted(found)]

    def read_until(degrees, expected):
        (machine.home / "degrees").write_text(degrees)
        machine.wait_for(lambda: [1] if states() == expected else [])
        machine.wait_for(lambda: [one for one in published("telemetry") if one["v"] == float(degrees)])

    machine.wait_for(lambda: published("telemetry"))
    read_until("29.5", ["off"])
    read_until("30.5", ["off", "on"])
    read_until("31.5", ["off", "on"])
    read_until("12", ["off", "on", "off"])
    machine.kill()
    assert (machine.home / "relay").read_text() == "off on off "
    assert [body["rules"] for body in published("health")][-1] == 0


def test_an_exception_is_logged_and_counted_and_ends_nothing(own, machine, broker, published):
    own("def on_reading(name, value):\n    if name == 'attic':\n        actuators['pump'].set('on')\n", log="error")
    machine.wait_for(lambda: [body for body in published("health") if body["rules"] > 2])
    health = published("health")[-1]
    assert health["errors"]["rules"].startswith("NameError: ")
    before = len(published("telemetry"))
    machine.wait_for(lambda: published("telemetry"), before + 3)
    output, _ = machine.kill()
    assert output.count("Traceback") == output.count("inflight: rules: NameError") == 1  # not with each reading
    assert sum("rules: NameError" in " ".join(body["lines"]) for body in published("log")) == 1


@pytest.mark.parametrize("text", ["import nothing_like_that\n", "1 / 0\n", "def onreading(name, value): pass\n"])
def test_a_module_that_cannot_be_loaded_is_told(own, machine, published, text):
    own(text)
    machine.wait_for(lambda: [body for body in published("health") if "rules" in body["errors"]])
    machine.wait_for(lambda: published("telemetry"), 3)
    assert machine.process.poll() is None


def test_safe_mode_has_no_rules(make, nobody, monkeypatch):
    """They may be what ended the starts before."""
    called = []
    monkeypatch.setitem(sys.modules, "rules", types.SimpleNamespace(on_reading=lambda *of: called.append(of)))
    for crash in (None, {"count": 4, "told": True, "safe": True, "error": "", "at": None}):
        app = make(nobody, crash=crash)
        monkeypatch.setattr(app, "close", lambda: None)
        app.client.on_error = lambda error, app=app: setattr(app, "stopping", True)  # nobody answers
        app.run()
    assert called == [("temperature", 21.5)]

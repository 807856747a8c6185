"""The set-up of the other brokers: pins, and brokers that this host cannot run."""

import json
import re
from types import SimpleNamespace

from tools.setup import brokers
from tools.setup.common import SetupError
from tools.setup.packages import read_lock


def test_pins_are_complete():
    """Every package has a hash, and none has a URL."""
    packages = json.loads((brokers.LOCKS / "aedes/package-lock.json").read_text())["packages"]
    assert all(package.get("integrity") for name, package in packages.items() if name)
    assert not any("resolved" in package for package in packages.values())
    assert {architecture for _, architecture in read_lock(brokers.RABBITMQ.read_text())} == {"amd64", "arm64"}
    pins = re.split(r"\n(?=\S)", (brokers.LOCKS / "amqtt.lock").read_text())[1:]
    assert pins and all("==" in pin and "--hash=sha256:" in pin for pin in pins)


def test_a_broker_that_cannot_be_installed(tmp_path, monkeypatch):
    """The reason is recorded. Only a temporary one is retried. The other brokers are installed."""
    tries = []

    def maker(name, error=None):
        def make(installer):
            tries.append(name)
            if error:
                raise error
            return {"argv": ["/bin/sh"]}

        return make

    makers = {
        "here": maker("here"),
        "never": maker("never", SetupError("not on this host")),
        "later": maker("later", SetupError("no network", temporary=True)),
    }
    monkeypatch.setattr(brokers, "MAKERS", makers)
    monkeypatch.setenv("INFLIGHT_CACHE", str(tmp_path))
    installer = SimpleNamespace(cache=tmp_path, key="key")
    assert brokers.ensure(installer)
    assert brokers.ensure(installer)
    assert tries == ["here", "never", "later", "later"]
    assert brokers.known("here")["argv"] == ["/bin/sh"]
    assert brokers.known("never")["reason"] == "not on this host"
    assert brokers.known("absent")["reason"].startswith("not set up")

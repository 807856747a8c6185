"""The set-up of the other brokers."""

import json
import re

from tools.setup import brokers
from tools.setup.packages import read_lock


def test_pins_are_complete():
    """Every package has a hash, and none has a URL."""
    packages = json.loads((brokers.LOCKS / "aedes/package-lock.json").read_text())["packages"]
    assert all(package.get("integrity") for name, package in packages.items() if name)
    assert not any("resolved" in package for package in packages.values())
    assert {architecture for _, architecture in read_lock(brokers.RABBITMQ.read_text())} == {"amd64", "arm64"}
    pins = re.split(r"\n(?=\S)", (brokers.LOCKS / "amqtt.lock").read_text())[1:]
    assert pins and all("==" in pin and "--hash=sha256:" in pin for pin in pins)

"""The buses that the set-up searches for sensors are at pins that a board has, and that are free."""

import importlib.util
import sys
from types import ModuleType, SimpleNamespace

import pytest

from inflight_tools.boards.images.variants import variants
from inflight_tools.sources import device_sources

MACHINES = {
    "esp32": ("Generic ESP32 module with ESP32", (21, 22, 4)),
    "esp32s2": ("Generic ESP32S2 module with ESP32S2", (8, 9, 4)),
    "esp32s3": ("Generic ESP32S3 module with ESP32S3", (8, 9, 4)),
    "esp32c3": ("ESP32C3 module with ESP32C3", (8, 9, 4)),
    "esp32c6": ("ESP32C6 module with ESP32C6", (6, 7, 4)),
}


@pytest.mark.parametrize("variant", variants(), ids=lambda variant: variant.name)
def test_the_buses_are_at_pins_of_the_board(variant, monkeypatch):
    told, pins = MACHINES.get(variant.name, ("", (4, 5, 22)))
    monkeypatch.setattr(sys, "implementation", SimpleNamespace(**vars(sys.implementation), _machine=told))
    wifi = ModuleType("setup_wifi")
    for name in ("DNS_PORT", "HTTP_PORT", "address", "available", "join", "joined", "scan"):
        setattr(wifi, name, None)
    monkeypatch.setitem(sys.modules, "setup_wifi", wifi)
    monkeypatch.setitem(sys.modules, "network", ModuleType("network"))
    file = device_sources().boards / variant.folder / "setup_board.py"
    spec = importlib.util.spec_from_file_location("setup_board_of_it", file)
    board = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(board)
    assert pins == board.BUSES
    for number in pins:
        variant.check_pin(number, "bme280", "sda")

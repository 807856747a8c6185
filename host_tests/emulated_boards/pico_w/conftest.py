"""Tests of what only the emulated Pico W has."""

from host_tests.absent import absent
from tools.emulators.pico_w import image


def pytest_pycollect_makemodule(module_path, parent):
    return absent(parent, module_path, image.unavailable())

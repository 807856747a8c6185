"""Tests of what only the emulated Pico W has."""

from dev.pico_w import image
from host_tests.absent import absent


def pytest_pycollect_makemodule(module_path, parent):
    return absent(parent, module_path, image.unavailable())

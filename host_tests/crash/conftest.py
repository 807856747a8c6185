"""Fixtures for the tests of the crash explorer."""

import pytest

from tools.crash import cutting


@pytest.fixture(autouse=True)
def quick_crc(monkeypatch):
    cutting.quick_crc(monkeypatch.setattr)

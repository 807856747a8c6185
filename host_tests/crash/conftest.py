"""Fixtures for the tests of the crash explorer."""

import pytest

import account


@pytest.fixture(autouse=True)
def quick_crc(monkeypatch):
    account.quick_crc(monkeypatch.setattr)

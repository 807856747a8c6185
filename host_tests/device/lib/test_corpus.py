"""The fuzzers' corpus on every interpreter: each third input has the same outcome as on CPython."""

import sys

from harness import eq
from outcome import Finding
from replay import entries, replay

RUNTIMES = "cpython micropython-x86"
CORPUS = "host_tests/fuzz/corpus.txt"


def played(name):
    if not replay(CORPUS, name, 1 if sys.implementation.name == "cpython" else 3)[0]:
        raise Finding("no input of " + name)


def test_decoder():
    played("decoder")


def test_decoder5():
    played("decoder5")


def test_topic():
    played("topic")


def test_session():
    played("session")


def test_session5():
    played("session5")


def test_firmware():
    played("firmware")


def test_mount():
    played("mount")


def test_calls():
    played("calls")


def test_numbers_tell_outcomes_apart():
    """Different outcomes have different numbers."""
    for name in ("decoder", "decoder5", "session", "session5", "mount"):
        numbers = [number for target, number, _ in entries(CORPUS) if target == name]
        assert len(set(numbers)) * 2 > len(numbers), name
    eq([number for _, number, _ in entries(CORPUS) if number is None], [])

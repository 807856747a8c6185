"""The fuzzers' corpus on every interpreter: each third input has the same outcome as on CPython."""

import sys

from harness import eq
from replay import entries, replay

RUNTIMES = "cpython micropython-x86"
CORPUS = "host_tests/fuzz/corpus.txt"


def test_each_target():
    step = 1 if sys.implementation.name == "cpython" else 3
    targets = {target for target, _, _ in entries(CORPUS)}
    assert len(targets) > 7, targets
    for name in sorted(targets):
        assert replay(CORPUS, name, step)[0], name


def test_numbers_tell_outcomes_apart():
    """Different outcomes have different numbers."""
    for name in ("decoder", "decoder5", "session", "session5", "mount"):
        numbers = [number for target, number, _ in entries(CORPUS) if target == name]
        assert len(set(numbers)) * 2 > len(numbers), name
    eq([number for _, number, _ in entries(CORPUS) if number is None], [])

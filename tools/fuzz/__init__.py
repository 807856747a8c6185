"""Fuzzing: grammars that generate inputs, campaigns with and without coverage guidance, the corpus. The targets, which
also run on devices, are in targets/."""

from tools.setup.common import CHECKOUT

TARGETS = CHECKOUT / "tools/fuzz/targets"
CORPUS = CHECKOUT / "host_tests/fuzz/corpus.txt"
# Target: its share of the inputs, the part of these guided by coverage, and its share of the time. Fast targets get
# most inputs.
SHARES = {
    "decoder": (0.48, 0.06, 0.18),
    "decoder5": (0.30, 0.06, 0.20),
    "topic": (0.16, 0.01, 0.05),
    "session": (0.010, 0.2, 0.12),
    "session5": (0.005, 0.2, 0.08),
    "firmware": (0.02, 0.2, 0.05),
    "setup": (0.02, 0.2, 0.02),
    "mount": (0.0025, 0.2, 0.25),
    "calls": (0.0025, 0.0, 0.05),
}


def target(name):
    return __import__(f"{name}_target")

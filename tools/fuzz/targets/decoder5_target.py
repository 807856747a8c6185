"""The decoder of level 5: as decoder_target, whose data it takes; bit 0 means nothing. Properties are the same, too,
however the input is split."""

from decoder_target import run_at


def run(data):
    return run_at(5, data)

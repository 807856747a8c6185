"""Axes: round numbers, and round times. All take any finite numbers: no sum or difference of two is made that might be
infinite."""

import math
import sys

_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_DAYS = (1, 2, 7, 14, 30, 90, 365)
_SMALLEST = 1e-300  # of a step: powers of ten that are much smaller are zero


class Scale:
    """A linear map from values to coordinates."""

    def __init__(self, low, high, start, end):
        self.low, self.start, self.end = low, start, end
        self._half = (high / 2 - low / 2) or 1

    def __call__(self, value):
        return self.start + (value / 2 - self.low / 2) / self._half * (self.end - self.start)


def short(coordinate):
    """A coordinate as text, rounded to a tenth of a pixel."""
    return f"{coordinate:.1f}".removesuffix(".0")


def _round_up(rough, digits):
    """The smallest number >= `rough` that is one of `digits` times a power of ten."""
    size = 10.0 ** math.floor(math.log10(rough))
    return next(size * digit for digit in digits if size * digit >= rough * 0.999)


def ticks(low, high, about=4):
    """Two to seven round numbers that cover low to high."""
    rough = (high / about - low / about) or abs(high / about) or 1 / about
    step = _round_up(max(rough, _SMALLEST), (1, 2, 2.5, 5, 10))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    most = sys.float_info.max
    return [max(-most, min(n * step, most)) for n in range(first, max(last, first + 1) + 1)]


def whole_ticks(high, about=3):
    """The same for counts: whole numbers from 0."""
    step = int(_round_up(max(high / about, 1), (1, 2, 5, 10)))
    return list(range(0, math.ceil(max(high, 1) / step) * step + 1, step))


def time_ticks(start, end, most):
    """At most `most` times between start and end."""
    steps = (*_TIMES, *(days * 86400 for days in _DAYS))
    needed = (end - start) / most
    step = next((n for n in steps if n >= needed), needed)
    first = math.ceil(start / step)
    return [n * step for n in range(first, math.floor(end / step) + 1)]

# The function on_reading(name, value) of the module `rules` of one's own: it is called with each reading that is in the
# journal. Loaded by a device that has rules; no others pay for its names.

import sys

import log
from inflight.compat import print_exception
from telemetry import describe


class _Rules:
    """`on_reading`: the function. count: its exceptions. They are reported as those of a sensor are."""

    def __init__(self, on_reading, errors):
        self._on_reading = on_reading
        self._errors = errors
        self.count = 0

    def see(self, readings):
        """Calls the function with each of `readings`, (name, unit, value)."""
        before = self._errors.pop("rules", None)
        for name, _, value in readings:
            try:
                self._on_reading(name, value)
            except Exception as e:
                self.count += 1
                if "rules" not in self._errors:
                    _report(e, self._errors, before)


def _report(error, errors, before=None):
    # One that repeats is told once.
    text = errors["rules"] = describe(error)
    if text != before:
        print_exception(error)
        log.say("rules: " + text)


def load(rules, errors):
    """What calls the functions of the module `rules`, or of the exception that it raised: None. Errors of rules go to
    the dict `errors`."""
    try:
        if isinstance(rules, Exception):
            raise rules
        if rules.on_reading:  # of a release without rules it is None
            return _Rules(rules.on_reading, errors)
    except Exception as e:
        _report(e, errors)
    sys.modules.pop("rules", None)
    return None

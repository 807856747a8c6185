# The module `rules` of one's own, if the device has one: on_reading(name, value) is called with each reading, after it
# is in the journal. Loaded once, and not kept without rules.

import sys

import log
from inflight.compat import print_exception
from telemetry import describe


class Rules:
    """`on_reading`: the function. failed: its exceptions. They are reported as those of a sensor are."""

    def __init__(self, on_reading, errors):
        self._on_reading = on_reading
        self._errors = errors
        self.failed = 0

    def see(self, readings):
        """Calls the function with each of `readings`, (name, unit, value)."""
        before = self._errors.pop("rules", None)
        for name, _, value in readings:
            try:
                self._on_reading(name, value)
            except Exception as e:
                self.failed += 1
                if "rules" not in self._errors:
                    _report(e, self._errors, before)


def _report(error, errors, before=None):
    # One that repeats is told once.
    text = errors["rules"] = describe(error)
    if text != before:
        print_exception(error)
        log.say("rules: " + text)


def load(app):
    """The Rules of the device; None if it has none, or an error keeps them from loading."""
    try:
        import rules  # type: ignore[import-not-found]

        if rules.on_reading:  # of a release without rules it is None
            return Rules(rules.on_reading, app.errors)
    except Exception as e:
        if not (isinstance(e, ImportError) and "'rules'" in str(e)):
            _report(e, app.errors)
    sys.modules.pop("rules", None)
    return None

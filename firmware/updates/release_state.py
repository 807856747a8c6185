# What is published of a release: its state. Loaded with what fetches or tries one.

import json

from files import beside
from inflight.compat import const
from inflight.journal.journal import OUT

_REASON = const(150)  # characters
_SIZE = const(1_280)  # bytes of a message with such a reason, at most: json.dumps() may write each as six


def told(app, number, state, reason=None):
    """Publishes the state of release `number`, with its digest once it was fetched; None: of an announcement whose
    number is not known, which does not replace the last state. False while the journal is full: then it is to be tried
    again."""
    if not app.journal.fits(OUT, _SIZE):
        return False
    fields = {"release": number, "state": state}
    try:
        with open(beside(app.board, "release.json")) as f:
            fields["sha256"] = json.loads(f.read())[str(number)]
    except (OSError, ValueError, KeyError):
        pass  # it is not there yet, or an earlier version of Inflight has fetched it
    if reason:
        fields["reason"] = reason[:_REASON]
    app.report("release", fields, number is not None)
    return True

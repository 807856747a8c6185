# What is published of a release: its state. Loaded with what fetches or tries one.

import json

from files import beside, kept_json
from inflight.compat import const
from inflight.journal.journal import OUT

_REASON = const(150)  # characters
_SIZE = const(1_280)  # bytes of a message with such a reason, at most: json.dumps() may write each as six


def digests(app):
    """{number: digest} of the releases that the device has had. Without them it does all but tell them."""
    try:
        return kept_json(beside(app.board, "release.json"), {})
    except OSError:
        return {}


def told(app, number, state, reason=None, digest=None):
    """Publishes the state of release `number`, with its digest once it was fetched, or with `digest`; a refusal is not
    retained. number: None for an announcement that is not signed: that is not worth flash. False while the journal is
    full: then it is to be tried again."""
    if number and not app.journal.fits(OUT, _SIZE):
        return False
    fields = {"release": number, "state": state}
    digest = digest or digests(app).get(str(number))
    if digest:
        fields["sha256"] = digest
    if reason:
        fields["reason"] = reason[:_REASON]
    if number:
        app.report("release", fields, state != "refused")
        return True
    try:
        app.client.publish("%s/%s/release" % (app.config.root, app.config.device), json.dumps(fields), 0)
    except OSError:
        pass  # the connection is lost
    return True

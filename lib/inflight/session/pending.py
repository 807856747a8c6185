# The messages that the broker has not completed, for the application.

from ..states import INTERRUPTED, OUTSIDE, RUNNING


def messages(client):
    """See Base.pending_messages(). Each message is one operation: between them everything may change."""
    seq = 0
    while True:
        before = client._guard
        try:
            client._begin(RUNNING)
            found = client.session.next_message(seq)
        finally:
            client._guard = client._guard & INTERRUPTED | before & (RUNNING | OUTSIDE)
        if not found:
            return
        yield found
        seq = found[1] + 1

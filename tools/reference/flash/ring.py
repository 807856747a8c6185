"""What a mounted journal has on its flash, by its own search."""

from inflight.journal import OUT


def numbers(journal):
    """Sequence numbers of the messages, in the order of the ring."""
    found = []
    at = journal.scan(OUT, -1)
    while at >= 0:
        found.append(journal.found_seq)
        at = journal.scan(OUT, at)
    return found

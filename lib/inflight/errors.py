# The error of a full journal, apart from the journal: a client without one needs it, too.


class OutboxFull(Exception):
    """The journal has no space for another message; nothing was written."""

# Errors of the caller: that of a full journal, apart from the journal, since a client without one needs it, too; and
# those of arguments, whose texts are loaded when they are needed.


class OutboxFull(Exception):
    """The journal has no space for another message; nothing was written."""


def refuse(*what):
    """Raises ValueError: this argument, a name and its value, is not allowed. arguments.refused() does."""
    from .arguments import refused

    refused(*what)

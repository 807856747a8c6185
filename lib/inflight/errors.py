# Errors of the caller: that of a full journal, apart from the journal, since a client without one needs it, too; and
# those of arguments. And what others say, made fit for the texts of errors.


class OutboxFull(Exception):
    """The journal has no space for another message; nothing was written."""


def refuse(*what):
    """Raises ValueError: this argument, a name and its value, is not allowed. arguments.refused() does."""
    from .arguments import refused

    refused(*what)


# --- what others say ---
# Others (a broker, a server, a network) in what people read: error texts, the log, the console.

# First and last of each range: controls, marks that hide or reverse what stands around them, separators of lines,
# surrogates, private use, non-characters, tags.
# fmt: off
_HIDDEN = (
    0, 0x1F, 0x7F, 0x9F, 0xAD, 0xAD, 0x61C, 0x61C, 0x180E, 0x180E, 0x200B, 0x200F, 0x2028, 0x202E, 0x2060, 0x206F,
    0xD800, 0xF8FF, 0xFEFF, 0xFEFF, 0xFFF0, 0xFFFB, 0xFFFE, 0xFFFF, 0xE0000, 0x10FFFF,
)
# fmt: on


def printable(text):
    """`text`, a str or bytes, as a str of one line, in which each character that cannot be seen is written as Python
    escapes it: it could begin a line of its own, command a terminal, or reverse others. Of bytes all but ASCII is."""
    out = []
    for c in text:
        of_bytes = isinstance(c, int)
        n = c if of_bytes else ord(c)
        hidden = of_bytes and n > 0x7E  # they tell no encoding
        for k in range(0, len(_HIDDEN), 2):
            hidden = hidden or _HIDDEN[k] <= n <= _HIDDEN[k + 1]
        if hidden:
            out.append(("\\x%02x" if n < 0x100 else "\\u%04x" if n < 0x10000 else "\\U%08x") % n)
        else:
            out.append(chr(n))
    return "".join(out)

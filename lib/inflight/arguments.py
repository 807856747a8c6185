# What public calls take: the ValueError of an argument names it, what is allowed, and the value. Loaded beside what
# checks arguments once.

_LONGEST = 60  # characters of a value that are shown
_SECRET = ("user", "password", "headers", "auth")  # may be a secret, or next to one: of these only the type


def refuse(name, allowed, value):
    """Raises ValueError."""
    shown = "this " + value.__class__.__name__ if name in _SECRET else repr(value)[:_LONGEST]
    raise ValueError("%s is %s, not %s" % (name, allowed, shown))


def number(name, value, least, most, unit=""):
    """Raises ValueError unless the value is a whole number from least to most; unit: " s", for example."""
    if value.__class__ is not int or not least <= value <= most:
        refuse(name, "a whole number from %d to %d%s" % (least, most, unit), value)


def flag(name, value):
    """Raises ValueError unless the value is True or False (or 1 or 0)."""
    if value not in (False, True):
        refuse(name, "True or False", value)


def function(name, value):
    """Raises ValueError unless the value can be called, or is None."""
    if value is not None and not callable(value):
        refuse(name, "a function or None", value)


def text(name, value):
    """Raises ValueError unless the value is a str."""
    if not isinstance(value, str):
        refuse(name, "a str", value)


def blocks(n, size, unit):
    """Raises ValueError unless a FileFlash or RamFlash may have `n` blocks of `size` bytes; it is erased by `unit`."""
    number("blocks", n, 1, 65535)
    number("block_size", size, unit, 65536, " bytes")
    if size % unit:
        refuse("block_size", "a multiple of %d bytes" % unit, size)

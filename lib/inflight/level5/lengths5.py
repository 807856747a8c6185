# How many bytes the remaining length of a packet takes, which properties change.


def digits_for(n):
    """How many bytes the remaining length n takes."""
    return 1 if n < 128 else 2 if n < 16384 else 3 if n < 2097152 else 4


def digits_in(size):
    """How many bytes the remaining length takes in a packet of this size."""
    return 1 if size < 130 else 2 if size < 16387 else 3 if size < 2097156 else 4

# Reads what is on a board, so that a sensor that fails silences no other.


def readings(sensors):
    """Yields (name, unit, value) of `sensors`, a sequence of (name, unit, function). The value is what
    the function returns, or the exception that it raised; one that returns None is left out."""
    for name, unit, read in sensors:
        try:
            value = read()
        except Exception as e:
            value = e
        if value is not None:
            yield name, unit, value

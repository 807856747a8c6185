# Reads the sensors of a board; a failing sensor does not affect others.


def readings(sensors):
    """Yields (name, unit, value) of `sensors`, a sequence of (name, unit, function). The value is the function's
    result, or the exception that it raised; None is omitted."""
    for name, unit, read in sensors:
        try:
            value = read()
        except Exception as e:
            value = e
        if value is not None:
            yield name, unit, value

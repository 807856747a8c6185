# The entries of `sensors` and `actuators`, checked before a configuration is taken: by the command `set`, the set-up,
# and the tools. At a start each driver checks its own entry, since an error concerns one sensor or actuator, not the
# device. Loaded for that; unloads all that it loads.

import sys

_PINS = ("pin", "sda", "scl", "data", "clock")
_BUS = ("sda", "scl")  # which chips share


def check(config, pin=None):
    """Checks the entries of the Config `config`, its wake_on_pin, and that no pin is used twice. pin(number, driver,
    field): raises ValueError if this board has no such pin, or not for that; by default the board's own check. Raises
    ValueError."""
    from unload import since

    before = list(sys.modules)
    try:
        _check(config, pin or _made)
    finally:
        since(before)


def _made(number, driver, field):
    if field == "wake_on_pin":
        from wake_pin import check

        check(number)
        return
    from sensors import pin

    pin(number)


def _check(config, pin):
    used = {}
    if config.network:
        from network_fields import pins

        for field, number in pins(config.network):
            _take(used, number, "network: " + field)
    for driver, field, number in (
        ("", "wake_on_pin", getattr(config, "wake_on_pin", None)),
        ("setup", "pin", (config.setup or {}).get("pin")),
    ):
        if number is not None:
            try:
                pin(number, driver, field)
                _take(used, number, driver or field, field)
            except ValueError as e:
                raise ValueError("%s: %s" % (driver or field, e))
    for kind in ("sensor", "actuator"):
        for entry in getattr(config, kind + "s") or ():
            where = "%ss: %s: " % (kind, entry.get("name") or entry["driver"])
            try:
                _check_entry(kind, entry, config, pin, used, where)
            except ValueError as e:
                raise ValueError(where + str(e))


def _check_entry(kind, entry, config, pin, used, where):
    import sensors

    driver = entry["driver"]
    if kind == "sensor":
        from changes import change_fields, driver_fields

        known = sensors.KNOWN
        if change_fields(entry)[0] and config.sleep_ms:
            raise ValueError("report_on_change: nobody reads it while the device sleeps: leave sleep_ms out")
        entry = driver_fields(entry)
    else:
        from actuators import KNOWN as known
        from actuators import of_driver

        entry = of_driver(entry)[0]
    if driver == "counter" and config.sleep_ms:
        raise ValueError("it counts nothing while the device sleeps: leave sleep_ms out")
    try:
        fields = sensors.checked_fields(entry, __import__(sensors.module_of(kind, driver)).FIELDS)
        for field in _PINS:
            if field in fields:
                number = fields[field]
                pin(number, driver, field)
                shared = field if field in _BUS else None
                if driver == "digital" and number == getattr(config, "wake_on_pin", None):
                    shared = "wake_on_pin"  # which it may read, too
                _take(used, number, where + field, shared)
    except ImportError as e:
        raise ValueError(sensors.missing(kind, driver, known, str(e)))
    if "sda" in fields:
        chip = fields["sda"], fields["scl"], fields.get("address", driver)
        if chip in used:
            raise ValueError("the same chip as %s: give each its address" % used[chip][0])
        used[chip] = where[:-2], None


def _take(used, number, where, bus=None):
    other, of_bus = used.get(number, (where, bus))
    if other != where and not (bus and bus == of_bus):
        raise ValueError("pin %s is that of %s, too" % (number, other))
    used[number] = other, bus

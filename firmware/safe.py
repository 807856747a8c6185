# Safe mode: what a device does after several crashes in a row, or with an error in its configuration. It connects,
# reports, and executes commands. It has no sensors or actuators, and the defaults of all not needed to reach it.
# After an hour, or with its next wake, it starts in the normal way again.

from config import ConfigError, check
from inflight import Journal, RamFlash
from network_fields import NETWORK_FIELDS

# Never without one of these: the device would connect elsewhere, as somebody else, or without TLS.
_NEEDED = ("host", "port", "user", "password", "root", "device", "tls_ca", "tls_cert", "tls_key")
_USEFUL = NETWORK_FIELDS + ("group", "ntp", "keepalive", "protocol_level", "sleep_ms", "awake_ms", "update_keys")


def limit(given):
    """Of the dict `given`, the configuration, what safe mode uses; a useful field with an error is left out. Raises
    ConfigError."""
    if not isinstance(given, dict):
        check(given, "device")  # tells what to write
    kept = {name: given[name] for name in _NEEDED if name in given}
    check(kept, "device")
    for name in _USEFUL:
        if name in given:
            try:
                check(dict(kept, **{name: given[name]}), "device")
                kept[name] = given[name]
            except ConfigError:
                pass
    return kept


def mount(board):
    """The flash of the journal if there is one that can be mounted, RAM otherwise: the size of one that is made is a
    matter of the configuration, which may have an error."""
    try:
        flash = board.journal_flash(0)
        Journal(flash)
        return flash
    except (ValueError, OSError) as e:
        print("inflight: no journal:", e)
        return RamFlash(3, 2048)

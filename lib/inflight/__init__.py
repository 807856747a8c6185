# Inflight: the MQTT client that loses nothing. Modules are imported when they are first named,
# so that what a device does not use costs it no RAM.

import sys

_EXPORTS = {
    "Client": "client.client",
    "AsyncClient": "client.aio",
    "Journal": "journal.journal",
    "OutboxFull": "errors",
    "RamFlash": "flash.flash",
    "FileFlash": "flash.flash",
    "ProtocolError": "packet",
}
if sys.implementation.name != "micropython":  # there the other names cost something, and are looked up when asked for
    from .exports import EXPORTS

    _EXPORTS.update(EXPORTS)
__all__ = tuple(_EXPORTS)
__version__ = "0.1.0"


def __getattr__(name):
    module = _EXPORTS.get(name)
    if not module:
        if sys.implementation.name == "micropython":
            from .exports import place

            module = place(name)
    if not module:
        raise AttributeError(name)
    try:
        return getattr(__import__("inflight." + module, None, None, (name,)), name)
    finally:
        if sys.implementation.name == "micropython":
            import gc

            gc.collect()  # what the import has left lies between what is allocated next

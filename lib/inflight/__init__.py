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
    "erase": "journal.journal",
    "ConnectRefused": "session.refused",
    "Disconnected": "session.refused",
    "PublishRefused": "session.refused",
    "MessageDamaged": "session.refused",
    "MessageSetAside": "session.refused",
    "properties": "level5.properties5",
    "connect_properties": "level5.connect_properties",
    "Authentication": "level5.authentication",
    "NO_LOCAL": "level5.subscription",
    "RETAIN_AS_PUBLISHED": "level5.subscription",
    "RETAIN_IF_NEW": "level5.subscription",
    "RETAIN_NEVER": "level5.subscription",
}
__all__ = tuple(_EXPORTS)
__version__ = "0.1.0"


def __getattr__(name):
    module = _EXPORTS.get(name)
    if not module:
        raise AttributeError(name)
    try:
        return getattr(__import__("inflight." + module, None, None, (name,)), name)
    finally:
        if sys.implementation.name == "micropython":
            import gc

            gc.collect()  # what the import has left lies between what is allocated next

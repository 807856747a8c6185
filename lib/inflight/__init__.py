# Inflight: the MQTT client that loses nothing. Rooms are imported when they are first named,
# so that what a device does not use costs it no RAM.

_ROOMS = {
    "Client": "client",
    "AsyncClient": "aio",
    "Journal": "journal",
    "OutboxFull": "journal",
    "RamFlash": "flash",
    "FileFlash": "flash",
    "ProtocolError": "packet",
    "ConnectRefused": "base",
}


def __getattr__(name):
    room = _ROOMS.get(name)
    if not room:
        raise AttributeError(name)
    return getattr(__import__("inflight." + room, None, None, (name,)), name)

# What programs import from inflight beside the names in __init__, and where it is.

EXPORTS = {
    "erase": "journal.journal",
    "CardFlash": "flash.card",
    "JoinedFlash": "flash.joined",
    "copy_journal": "journal.copying",
    "ConnectRefused": "session.refused",
    "Disconnected": "session.refused",
    "PublishRefused": "session.refused",
    "MessageDamaged": "session.refused",
    "MessageSetAside": "session.refused",
    "properties": "level5.properties5",
    "connect_properties": "level5.properties5",
    "Authentication": "level5.authentication",
    "NO_LOCAL": "level5.properties5",
    "RETAIN_AS_PUBLISHED": "level5.properties5",
    "RETAIN_IF_NEW": "level5.properties5",
    "RETAIN_NEVER": "level5.properties5",
}


def place(name):
    """Returns the module that has it, None: there is none."""
    return EXPORTS.get(name)

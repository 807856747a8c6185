"""How the library is loaded on a board: which of its modules are one there, which are given back, and which methods
stand apart. The sources say nothing of it, and the build asks nothing else."""

PACKAGE = "inflight"

# What stands in one file and is not loaded together. {module: (module that it comes from, its functions, classes and
# constants)}: it imports those before it when it is loaded, and those behind it where it uses them.
APART: dict[str, tuple[str, tuple[str, ...]]] = {}
# What is always loaded together is one module. {module: those that it consists of, each behind those that it needs}
GROUPS = {
    "core": (
        *("compat", "states", "counters", "errors", "packet", "topic", "packet_buffer", "session"),
        *("transport", "base"),
    ),
    "journal_core": ("loops", "pages", "records", "journal"),
    "mqtt5_core": ("errors5", "lengths5", "mqtt5"),
}
MERGED = {name: group for group, names in GROUPS.items() for name in names}
# Those of them that drivers and programs import by their own names.
PUBLIC = ("compat", "counters", "errors", "journal", "packet", "topic")
# Those that inflight itself names: what programs import from it.
KNOWN = (
    *("__init__", "exports", "client", "aio", "flash", "refused"),
    *("properties5", "connect_properties", "authentication", "subscription"),
)

# Given back by the function that imports them. The others stay, once they are loaded: with the first message that is
# received, for example, or since somebody may compare or catch what they define.
LENT = (
    *("arguments", "client_start", "connect", "contents", "counter_names", "cursor", "discarding", "expiry5"),
    *("finishing", "foreign", "handshake", "handshake5", "leaving5", "lost_messages", "new_journal", "opening"),
    *("options", "other_session5", "pinning", "posix", "recovery", "refusing5", "sector_reader", "sectors"),
    *("session_load", "session_record", "stored5", "subscribing", "suspects", "texts", "upgrade", "window"),
)
# These stay, but what their import has left is collected as behind the others: messages wait for it.
COLLECTED = ("receiving", "dispatching")
# {module: (module that it comes from, class, methods)}: those of one module are needed together, and lent.
SELDOM = {
    "connecting": (
        "client",
        "Client",
        (
            *("connect", "_connect", "_do_step", "connect_soon", "disconnect", "_end_connection"),
            *("subscribe", "unsubscribe", "ping", "_wait_for_answer", "_time_left", "_check_connected"),
            *("discard", "_publish_when_free"),
        ),
    ),
}
# Their errors' texts stay with them; those of all others have a module of their own.
RESIDENT = (
    *(*GROUPS, "client", "aio", "consumers", "dispatching", "receiving", "flash", "io_waiter", "pinned", "slots"),
    *("websocket",),
)

# There are more names than words in ROM. What each client loads gets them first: a name stays when its module is given
# back.
FIRST = (
    *("core", "client", "journal_core", "options", "client_start", "session_load", "session_record", "window"),
    *("opening", "handshake", "connect", "subscribing", "receiving", "dispatching", "new_journal", "recovery"),
    *("sector_reader", "sectors", "contents", "finishing", "arguments", "pinned", "pinning", "flash", "synced_file"),
    *("posix", "mqtt5_core", "handshake5"),
)
# Modules with objects of their own. An attribute that only the modules of one line name is of no object of another
# line, so they have the same words.
FAMILIES = (
    ("recovery", "sector_reader", "sectors", "contents", "finishing"),  # journals, and what reads them
    ("flash", "posix", "synced_file", "pinned", "pinning", "slots"),
    ("aio", "consumers", "inbox", "io_waiter", "received5"),
    ("websocket", "upgrade"),
)

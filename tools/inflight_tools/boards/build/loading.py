"""How the library is loaded on a board: which of its modules are one there, which are given back, and which methods
stand apart. The sources say nothing of it, and the build asks nothing else."""

PACKAGE = "inflight"

# What stands in one file and is not loaded together. {module: (module that it comes from, its functions, methods,
# classes and constants)}: it imports those before it when it is loaded, and those behind it where it uses them.
APART = {
    "topic": ("arguments", ("encode", "encode_name")),
    "printable": ("errors", ("printable",)),
    "counter_names": ("counters", ("NAMES", "by_name")),
    "synced_file": ("flash", ("File", "write")),
    "posix": ("flash", ("open_flash", "sync_folder")),
    "pinning": ("pinned", ("Finder", "ReadTracer", "grow", "pin")),
    "card_region": ("card", ("check_region", "files_in")),
    "new_journal": ("journal", ("prepare",)),
    "sector_order": ("sectors", ("restore",)),
    "contents": ("mount", ("read", "read_sector", "settle")),
    "finishing": ("mount", ("_begin_head_again", "finish")),
    "head_for_session": ("mount", ("begin_head_for_session",)),
    "opening": ("transport", ("addresses", "check_tls", "open_socket", "prepare")),
    "upgrade": ("websocket", ("upgrade_request", "upgrade_steps")),
    "session_record": ("record", ("find", "write")),
    "in_flight": ("record", ("load_received", "load_window")),
    "foreign": ("record", ("ForeignIds", "after_damage", "oldest_mid", "suspect")),
    "suspects": ("connect", ("judge",)),
    "given_up": ("drop", ("discard_message", "find_mid", "give_up", "is_unsent", "may_be_received")),
    "lost_messages": ("drop", ("find_lost", "is_publish", "tell_lost")),
    "set_aside": (
        "pending",
        ("SetAside", "_none_waits", "count_rest", "is_too_long", "next_in_order", "set_aside", "set_aside_of", "tell"),
    ),
    "long_message": ("receive", ("skip_topic", "start_long")),
    "malformed": ("receive", ("skip_malformed",)),
    "lengths5": ("cursor", ("digits_for", "digits_in")),
    "connect_properties": ("properties5", ("ConnectProperties", "attach_to_connect", "connect_properties")),
    "subscription": ("properties5", ("NO_LOCAL", "RETAIN_AS_PUBLISHED", "RETAIN_IF_NEW", "RETAIN_NEVER")),
    "other_session5": ("connection5", ("end_other_session", "leave_other_session")),
    "leaving5": ("connection5", ("disconnected", "leave")),
    "expiry5": ("stored5", ("Seconds", "expired", "newest")),
    "resending5": ("stored5", ("resend",)),
    "refusing5": ("mqtt5", ("lowered", "rejected")),
    "client_start": ("base", ("new_session", "start")),
    "received5": ("consumers", ("Received5",)),
    "undelivered": ("handlers", ("handled", "no_property", "topic_too_long")),
    "message5": ("handlers", ("Fields", "Message5")),
}
# What is always loaded together is one module. {module: those that it consists of, each behind those that it needs}
GROUPS = {
    "core": "compat states counters errors packet topic packet_buffer window session transport base".split(),
    "journal_core": ("pages", "records", "journal"),
    "mqtt5_core": ("lengths5", "mqtt5"),
}
# The same of the application.
TOGETHER = {
    "node": ("files", "telemetry", "log", "node"),
    "app": ("connectivity", "app"),
    "radio": ("wifi", "radio"),
}
MERGED = {name: group for group, names in GROUPS.items() for name in names}
# Those of them that drivers and programs import by their own names.
PUBLIC = ("compat", "counters", "errors", "journal", "packet")
# Those that inflight itself names: what programs import from it.
KNOWN = """
    __init__ exports client aio flash card joined copying refused properties5 connect_properties authentication
    subscription
""".split()

# Modules of texts that stand wherever they are used, as numbers do: nobody loads them.
TEXTS = ("codes",)

# Imported by each statement that uses them, also in a loop, and held for that alone: others are loaded next.
BRIEF = ("contents", "in_flight", "sector_order", "session_record", "set_aside")

# Given back by the function that imports them. The others stay, once they are loaded: with the first subscription,
# for example, or since somebody may compare or catch what they define.
LENT = """
    arguments card_region client_start connect contents counter_names cursor drop expiry5 fault finishing foreign
    handshake head_for_session connection5 leaving5 lost_messages new_journal opening options other_session5 pinning
    posix mount quick refusing5 sectors sector_order record session_record stored5 subscribe suspects texts upgrade
    in_flight
""".split()
# Likewise, of boards and firmware. Not what the launcher loads: it knows nothing of the library.
BORROWED = """
    announcement assemble batch callback commands config crash discovery entries firmware_slot health
    network_fields offline release_state safe secure settings setup_code slot storage suggestion thin trials
    unload updating
""".split()
# With this module nothing is given back on that board: a wake is short, loading takes most of it, and the heap is free.
# {board: module}
KEEPING = {"rp2040": "sleeping_app"}
# These boards get the application as one file, since to look for a module in a folder takes them 20 ms.
PACKED = ("rp2040",)
# These stay, but what their import has left is collected as behind the others: messages wait for it.
COLLECTED = ("receive", "handlers")
_OF_CLIENT = """
    __enter__ __exit__ connect _connect _do_step disconnect _end_connection subscribe unsubscribe ping
    _wait_for_answer _time_left _check_connected discard _publish_when_free
""".split()
# {module: (module that it comes from, {class: methods})}: those of one module are needed together, and lent. Without a
# class: functions of the module.
SELDOM = {f"{PACKAGE}/connecting": (f"{PACKAGE}/client", {"Client": _OF_CLIENT})}
_OF_NODE = """
    __init__ subscribe _configured _made_actuators _made_home _set_up_network _gather _dating packet _sync_time
    _board_cs _clock_cs _go_on
""".split()
_JOIN = ("__init__", "setup", "join", "_try_next", "_dial", "_leave")
# Likewise of the application, which is awake nearly always: what it does when it starts, connects or ends. Not what a
# handler of the client needs, where stack is short.
OCCASIONAL = {
    "node_more": ("node", {"Node": _OF_NODE, "": ("will", "_properties")}),
    "app_more": ("app", {"App": ("__init__", "_keep_time", "_made_rules", "close", "remember")}),
    # Where a board's Radio calls no method of Wifi by that name, the two are one class.
    "radio_more": ("radio", {"Wifi": _JOIN, "Radio": (*_JOIN, "connect")}),
}
# Their errors' texts stay with them; those of all others have a module of their own.
RESIDENT = [*GROUPS, *"client aio consumers handlers receive flash io_waiter pinned slots card websocket".split()]

# There are more names than words in ROM. What each client loads gets them first: a name stays when its module is given
# back.
FIRST = """
    core client journal_core options client_start record session_record in_flight opening handshake connect
    subscribe receive handlers new_journal mount sectors sector_order contents finishing arguments pinned pinning
    flash synced_file posix mqtt5_core connection5
""".split()

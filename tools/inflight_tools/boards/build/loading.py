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
    "new_journal": ("journal", ("Journal._prepare_all",)),
    "mount": (
        "journal",
        """
        Journal._mount_again Journal._clear Journal._drop_copied Journal._likeness Journal._has_flipped
        Journal._number_of Journal._most_numbers Journal._count_losses Journal._take_secrets Journal._geometry
        Journal._erase_sector Journal._clear_page Journal._is_worn _word
        """.split(),
    ),
    "sector_order": ("journal", ("Journal._restore_sectors",)),
    "contents": ("journal", ("Journal._read_sectors", "Journal._read_sector", "Journal._settle")),
    "finishing": ("journal", ("Journal._begin_head_again", "Journal._finish")),
    "head_for_session": ("journal", ("Journal._begin_head_for_session",)),
    "quick": ("journal", ("Journal._mount_quickly", "Journal._identify")),
    "opening": ("transport", ("addresses", "check_tls", "open_socket", "prepare")),
    "upgrade": ("websocket", ("upgrade_request", "upgrade_steps")),
    "connect": ("session", ("connect_packet", "Session._begin_connection", "Session.put_connect")),
    "connack": (
        "session",
        ("Session.resume", "Session._receive_connack", "Session.is_lost", "Session.accept_connection"),
    ),
    "suspects": ("session", ("Session._judge",)),
    "record": ("session", ("Session._start_session", "Session._load_journal")),
    "session_record": ("session", ("Session._find_record", "Session.write_record")),
    "in_flight": ("session", ("Session._load_received", "Session.load_window")),
    "foreign": (
        "session",
        ("ForeignIds", "Session._suspect_after_damage", "Session.oldest_mid", "Session.suspect_ids"),
    ),
    "pending_messages": ("session", ("Session.message_at", "Session.next_message", "Session._find_behind")),
    "set_aside": (
        "session",
        """
        SetAside Session._next_in_order Session._none_waits Session.count_rest_of_journal Session.is_too_long
        Session.put_aside Session.make_aside Session.tell_set_aside
        """.split(),
    ),
    "drop": (
        "session",
        """
        Session._drop_for Session.can_drop Session.drop_oldest Session.discard_sent Session.end_lost_session
        """.split(),
    ),
    "given_up": (
        "session",
        """
        Session.discard_message Session.find_message Session.give_up Session.is_unsent Session.may_be_received
        """.split(),
    ),
    "lost_messages": ("session", ("Session._drop_unreadable", "Session.is_publish", "Session.tell_lost")),
    "request_packets": ("subscribe", ("request_packet", "request_size")),
    "request": (
        "session",
        ("Session.check_request", "Session._put_request", "Session._receive_suback", "Session._make_request"),
    ),
    "decoding": ("packet_buffer", ("PacketBuffer.decode_publish", "PacketBuffer._decode_piece")),
    "deliveries": (
        "receive",
        """
        Receiving._take_publish Receiving.take_qos_2 Receiving.delivered Receiving.acknowledge_received
        Receiving._release_received Receiving.mark_received
        """.split(),
    ),
    "long_message": ("packet_buffer", ("PacketBuffer._skip_topic", "PacketBuffer._start_long")),
    "rest": ("packet_buffer", ("PacketBuffer._bytes_left", "PacketBuffer._skip_rest")),
    "malformed": ("receive", ("Receiving._skip_malformed", "Receiving._close_in_time")),
    "lengths5": ("cursor", ("digits_for", "digits_in")),
    "connect_properties": ("properties5", ("ConnectProperties", "attach_to_connect", "connect_properties")),
    "subscription": ("properties5", ("NO_LOCAL", "RETAIN_AS_PUBLISHED", "RETAIN_IF_NEW", "RETAIN_NEVER")),
    "connected5": ("mqtt5", ("Session5._load_at_level_5", "Session5._fields_of_connect", "Session5._receive_connack5")),
    "long_packets": (
        "receive5",
        """
        LongPackets.publish_long LongPackets.properties_arrived LongPackets.packet_too_long
        LongPackets.check_receive_maximum
        """.split(),
    ),
    "other_session5": ("mqtt5", ("Session5._end_other_session",)),
    "leaving5": ("mqtt5", ("Session5._receive_disconnect", "Session5._leave_broker")),
    "expired5": ("mqtt5", ("Session5.drop_expired_message",)),
    "expiry5": ("stored5", ("Seconds", "newest")),
    "resending5": ("stored5", ("resend",)),
    "refusing5": ("mqtt5", ("Session5.note_lowered", "Session5.take_failure")),
    "configuration": ("options", ("Options.configure",)),
    "granted": (
        "subscriptions",
        """
        Subscriptions._subscribe_again_steps Subscriptions._requests_for Subscriptions._take_granted
        Subscriptions._remove_handlers
        """.split(),
    ),
    "filters": (
        "subscriptions",
        ("Subscriptions._make_handlers", "Subscriptions._add_handlers", "Subscriptions._encode_filters"),
    ),
    "dispatching": (
        "subscriptions",
        ("Subscriptions._make_message", "Subscriptions._has_handler", "Subscriptions._dispatch", "matches"),
    ),
    "undelivered": ("subscriptions", ("Subscriptions._topic_too_long", "Subscriptions._end_delivery")),
    "no_properties": ("handlers", ("no_property",)),
    "pending": ("base", ("Base._pending_messages",)),
    "client_start": ("base", ("new_session", "Base._set_up")),
    "handshake": ("base", ("Base._steps", "Base._slow_down")),
    "received5": ("consumers", ("Received5",)),
    "message5": ("handlers", ("Fields", "Message5")),
}
# What is always loaded together is one module. {module: those that it consists of, each behind those that it needs}
GROUPS = {
    "core": """
        compat states counters errors packet topic packet_buffer window receive session transport options subscriptions
        base
    """.split(),
    "journal_core": ("pages", "records", "journal"),
    "mqtt5_core": ("lengths5", "receive5", "mqtt5"),
}
# Likewise of what stands apart.
PARTS = {
    "receiving": ("decoding", "deliveries", "dispatching"),
    "requesting": ("request_packets", "request"),
    "subscribing": ("subscribe", "filters"),
    "unreceivable": ("rest", "malformed"),
}
# The same of the application.
TOGETHER = {
    "node": ("files", "telemetry", "log", "node"),
    "app": ("connectivity", "app"),
    "config": ("network_fields", "config"),
    "radio": ("wifi", "radio"),
    "setup": ("setup_attempt", "setup"),
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

# They stand in place of their calls: see inline.
INLINED = """
    _abandon_oldest _come_again _publish_now _publish_repeated bytes_received data_to_send got overdue
    repeat_unanswered use _refusal _report_complete _sum_header _wait broker_takes excess forget_received
    _dup restart_timers _leave _return pinging _oldest _time_left
""".split()

# Imported by each statement that uses them, also in a loop, and held for that alone: others are loaded next.
BRIEF = ("contents", "expired5", "filters", "granted", "in_flight", "sector_order", "session_record", "set_aside")

# Given back by the function that imports them. The others stay, once they are loaded: with the first subscription,
# for example, or since somebody may compare or catch what they define.
LENT = """
    arguments card_region client_start configuration connack connect connected5 connection5 contents counter_names
    cursor drop expired5 expiry5 fault finishing foreign granted handshake head_for_session in_flight
    leaving5 lost_messages mount new_journal opening other_session5 pinning posix quick record refusing5 requesting
    sector_order sectors session_record stored5 subscribing suspects texts upgrade
""".split()
# Likewise, of boards and firmware. Not what the launcher loads: it knows nothing of the library.
BORROWED = """
    announcement assemble batch callback commands config crash discovery entries firmware_slot health
    offline release_state safe secure settings setup_code slot storage suggestion thin trials
    unload updating
""".split()
# With this module nothing is given back on that board: a wake is short, loading takes most of it, and the heap is free.
# {board: module}
KEEPING = {"rp2040": "sleeping_app"}
# These boards get the application as one file: to look for a module in a folder takes an RP2040 20 ms, and an ESP32
# hundreds of reads of its flash.
PACKED = ("rp2040", "esp32")
# These stay, but what their import has left is collected as behind the others: messages wait for it.
COLLECTED = ("receiving", "handlers")
# These stay, too, and each message runs through them: see hold.
HELD = ("receiving",)
_CONNECTING = "__enter__ __exit__ connect _connect _do_step disconnect _end_connection".split()
_REQUESTS = "subscribe unsubscribe ping _wait_for_answer _check_connected discard _publish_when_free".split()
# {module: (module that it comes from, {class: methods})}: those of one module are needed together, and lent. Without a
# class: functions of the module.
SELDOM = {
    f"{PACKAGE}/connecting": (f"{PACKAGE}/client", {"Client": _CONNECTING}),
    f"{PACKAGE}/requests": (f"{PACKAGE}/client", {"Client": _REQUESTS}),
}
_OF_NODE = """
    __init__ subscribe _configured _made_actuators _made_home _set_up_network _gather _dating packet _sync_time
    _clock_cs _go_on
""".split()
_JOIN = ("__init__", "setup", "join", "_by_signal", "_try_next", "_dial", "_leave_network")
# Likewise of the application, which is awake nearly always: what it does when it starts, connects or ends. Not what a
# handler of the client needs, where stack is short.
OCCASIONAL = {
    "node_more": ("node", {"Node": _OF_NODE, "": ("will", "_properties")}),
    "app_more": ("app", {"App": ("__init__", "_keep_time", "_made_rules", "close", "remember")}),
    # Where a board's Radio calls no method of Wifi by that name, the two are one class.
    "radio_more": ("radio", {"Wifi": _JOIN, "Radio": (*_JOIN, "connect")}),
}
# Their errors' texts stay with them; those of all others have a module of their own.
RESIDENT = [*GROUPS, "receiving", *"client aio consumers handlers flash io_waiter pinned slots card websocket".split()]

# There are more names than words in ROM. What each client loads gets them first: a name stays when its module is given
# back.
FIRST = """
    core client journal_core configuration client_start record session_record in_flight opening handshake connect
    requesting subscribing receiving handlers new_journal mount sectors sector_order contents finishing arguments pinned
    pinning flash synced_file posix mqtt5_core connected5 cursor connection5 expiry5 stored5
""".split()

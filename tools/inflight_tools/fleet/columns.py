"""The columns of the tables, as DDL that Spark reads."""

RANGES = "array<struct<lo: bigint, hi: bigint>>"
PAIRS = "array<struct<name: string, value: string>>"
_KEY = "device string, epoch bigint"
_HEALTH = (
    "up bigint, heap bigint, rssi bigint, outbox_full bigint, firmware string, wifi string, reset string, "
    "journal_where string, journal_live bigint, journal_used bigint, journal_limit bigint, journal_erases bigint, "
    "journal_damaged bigint, journal_skipped bigint, errors map<string, string>, counters map<string, bigint>, "
    "wake map<string, bigint>"
)
_DELIVERY = "received timestamp, `by` string, topic string, qos int, dup boolean, retain boolean"
# Of messages of level 5 that a collector of level 5 has received. expiry: seconds that were left then.
_PROPERTIES = (
    "payload_format int, expiry bigint, content_type string, response_topic string, correlation binary, "
    f"user_properties {PAIRS}"
)
FACTS = {
    # Every delivery, repetitions included. `first`: the delivery that counts.
    "raw": f"{_DELIVERY}, {_KEY}, seq bigint, kind string, name string, state string, problem string, payload binary, "
    f"digest bigint, next_s bigint, made timestamp, oldest bigint, first boolean, {_PROPERTIES}, up double, "
    "boot bigint",
    # clock: the source of `time`. 'device': its clock; 'uptime': the device told later when its readings were made;
    # 'receipt': it had no time, so it is the time of receipt; 'ahead', 'behind': the device's time was wrong, so it is
    # the time of receipt. up: of a reading that the device may still date, its time since the boot in s.
    "measurements": f"{_KEY}, seq bigint, received timestamp, place int, name string, unit string, time timestamp, "
    "clock string, value double, text string, flag boolean, data string, sum double, up double",
    "health": f"{_KEY}, seq bigint, received timestamp, {_HEALTH}",
    "dead_letters": f"{_DELIVERY}, {_KEY}, seq bigint, reason string, payload binary, {_PROPERTIES}",
}
# Each batch writes rows with its partial sums. `part`: of a million numbers of a journal. `live`: the lowest number
# of a delivery without RETAIN.
LEDGER = (
    f"{_KEY}, part bigint, ranges {RANGES}, repeated bigint, first_received timestamp, last_received timestamp, "
    "measurements bigint, dead_letters bigint, odd_clock bigint, latency binary, live bigint"
)
# What devices told later of the time since a boot: at `time` it was `up`, in s. It dates the readings without a time of
# the numbers from `boot` up to `seq`.
CLOCKS = f"{_KEY}, seq bigint, boot bigint, up double, time timestamp"
# Of readings that the device may still date there is a row for each message, with its number and `up`, until it does.
MINUTES = (
    "device string, name string, unit string, minute timestamp, count bigint, total double, min double, max double, "
    "sketch binary, epoch bigint, seq bigint, up double"
)

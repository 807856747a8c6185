"""The way of one message, as far as tables and landing files show it: by the views of the report, for one device."""

from inflight_tools.fleet.proof import COUNTED
from inflight_tools.fleet.where import landed

DELIVERED = "delivered"
_PLACES = {"device": "journal", "erased": "erased", "way": "way", "before": "before"}  # of views.missing(), and ours
_TABLES = ("raw", "measurements", "health", "dead_letters")
_MINE = "epoch = $1 AND seq = $2"
# The lowest number that the broker had not acknowledged, as the device told: the highest one; when it told last; and
# when it told first that a number was acknowledged.
_TOLD = """
SELECT max(oldest) AS oldest, epoch(max(received)) AS last,
    epoch(min(received) FILTER (oldest > $2)) AS acknowledged
FROM raw WHERE seq IS NOT NULL AND oldest IS NOT NULL AND epoch = $1
"""
# When an undated message of `raw` was made, if the device has told.
_DATED = """
SELECT arg_max(time - to_microseconds(CAST(1e6 * (clocks.up - raw.up) AS BIGINT)), clocks.boot) FROM clocks
WHERE clocks.epoch = raw.epoch AND clocks.boot <= raw.seq AND raw.seq < clocks.seq AND raw.up <= clocks.up
"""
_DELIVERIES = f"""
SELECT epoch(received) AS received, "by", topic, qos, dup, kind, problem, first, digest,
    epoch(coalesce(made, ({_DATED}))) AS made,
    {{'expiry': expiry, 'content_type': content_type, 'payload_format': payload_format,
    'response_topic': response_topic, 'correlation': base64(correlation), 'user_properties': user_properties}}
        AS properties
FROM raw WHERE {_MINE} ORDER BY first DESC, received
"""


class Unknown(Exception):
    """The tables do not know the device, or its journal. The text says what they know."""


def _journal(epochs, device, epoch):
    """The epoch that is asked for, by default the epoch of the device's newest journal. Raises Unknown."""
    if not epochs:
        raise Unknown(f"no message with a number has arrived from a device {device}: is it in another --data?")
    if epoch is not None and epoch not in epochs:
        known = ", ".join(map(str, epochs))
        raise Unknown(f"no message of a journal with epoch {epoch} has arrived from {device}, but of {known}")
    return epochs[-1] if epoch is None else epoch


def deliveries(database, epoch, number):
    """The deliveries of a number, as dicts, the first one first. Times are in s since 1970. `properties`: a dict of the
    properties of MQTT 5 that the sender gave, correlation in base64."""
    found = database.rows(_DELIVERIES, epoch, number)
    for one in found:
        one["properties"] = {name: value for name, value in one["properties"].items() if value is not None}
    return found


def _written(database, epoch, number):
    """When the file of `raw` that has the number was written, in s since 1970; None without one."""
    found = database.rows(f"SELECT filename FROM raw WHERE {_MINE} AND first", epoch, number)
    actions = database.tables["raw"].get_add_actions(flatten=True)
    times = zip(actions["path"].to_pylist(), actions["modification_time"].to_pylist(), strict=True)
    names = {path.rpartition("/")[2]: at / 1000 for path, at in times}
    return names.get(found[0]["filename"].rpartition("/")[2]) if found else None


def answer(database, device, number, landing, root, topics, epoch=None):
    """The way of message `number` of `device` as a dict that can be written as JSON; times are in s since 1970. From
    now on the Database, which has the views of views.define(), has the rows of that device only. Raises Unknown.

    landing, root: folders or URIs of landing files and tables. topics: root of the devices' topics. epoch: of
    the journal, by default the newest."""
    database.only(device)
    names = database.names(device)
    device = names[0]
    epochs = list(database.values("SELECT epoch FROM journals ORDER BY first_received, epoch"))
    epoch = _journal(epochs, device, epoch)
    arrived = database.row(
        "SELECT min(lo) AS first, max(hi) AS last, bool_or($2 BETWEEN lo AND hi) AS has FROM ranges WHERE epoch = $1",
        *(epoch, number),
    )
    told = database.row(_TOLD, epoch, number)
    counted = (f"SELECT count(*) AS many FROM {name} WHERE {_MINE}" for name in _TABLES)
    rows = [database.row(sql, epoch, number)["many"] for sql in counted]
    found = {
        "device": device,
        "epoch": epoch,
        "epochs": epochs,
        "number": number,
        "accepted": {"first": arrived["first"], "next": arrived["last"] + 1, "oldest": told["oldest"]},
        "told": told["last"],
        "acknowledged": told["acknowledged"],
        "deliveries": deliveries(database, epoch, number),
        "tables": dict(zip(_TABLES, rows, strict=True)),
        "written": _written(database, epoch, number),
        "landed": [],
        "proved": True,
    }
    found["conflicts"] = len({one.pop("digest") for one in found["deliveries"]}) > 1
    for delivery in found["deliveries"]:
        delivery["file"] = landed.file_of(landing, root, delivery)
    if arrived["has"]:
        lacks_rows = any(one["table"] == "raw" for one in database.differences)  # of any device
        return found | {"place": "damaged" if lacks_rows and not found["deliveries"] else DELIVERED}
    found["landed"] = landed.waiting(landing, topics, names, epoch, number)
    if found["landed"]:
        return found | {"place": "landed"}
    if number > arrived["last"]:
        return found | {"place": "after", "proved": False}
    return found | _missing(database, epoch, number)


def _missing(database, epoch, number):
    (missing,) = database.rows(
        "SELECT place, proved FROM missing WHERE epoch = $1 AND $2 BETWEEN lo AND hi", epoch, number
    )
    if missing["place"] != "gone":
        return {"place": _PLACES[missing["place"]], "proved": missing["proved"]}
    counts = ", ".join(f"coalesce({name}, 0) AS {name}" for name in COUNTED)
    told = database.row(
        f"SELECT gone, lost, {counts}, (SELECT any_value(expires) FROM expiries) AS expires FROM numbers "
        "WHERE epoch = ?",
        epoch,
    )
    counted = {name: told.pop(name) for name in COUNTED}
    gone, lost = told["gone"], told.pop("lost")
    place = "lost" if lost == gone else "lost-or-given-up" if lost else "given-up"
    return {"place": place, "proved": missing["proved"], "counted": counted} | told

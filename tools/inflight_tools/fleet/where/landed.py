"""Landing files that contain a message."""

import contextlib
from json.encoder import encode_basestring_ascii as quote

from inflight_tools.fleet.lines.gathered import expanded
from inflight_tools.fleet.lines.parse import Topics, parse
from inflight_tools.fleet.spark.landing import UNREADABLE
from inflight_tools.fleet.spark.storage import ARCHIVE, files_in

_ANY = Topics("")
_SLACK_S = 2  # of a file's time of change
_MOST = 32  # files that are searched for a delivery: each after it in time, its own file first


def file_of(landing, root, delivery):
    """The path of the landing file with a delivery that is in the tables, as History.deliveries() tells it. None if
    there is none any more."""
    pattern = f"{delivery['by']}-*.ndjson"
    at = round(1000 * delivery["received"])
    new, read = files_in(landing), files_in(root)
    present = [(changed, name, new) for name, (_, changed) in new.glob(pattern).items()]
    present += [(changed, name, read) for name, (_, changed) in read.find(ARCHIVE, pattern).items()]
    later = [file for file in present if file[0] >= at / 1000 - _SLACK_S]
    start = f'{{"at":{at},"by":'.encode()
    for _, name, files in sorted(later, key=lambda file: file[:2])[:_MOST]:
        with contextlib.suppress(OSError):  # it cannot be read
            for line in files.lines(name):
                if line.startswith(start) and parse(line, _ANY)["topic"] == delivery["topic"]:
                    return files.path(name)
    return None


def waiting(landing, root_topic, names, epoch, seq):
    """[(path, time of receipt in s since 1970)] of the files in `landing` that have a message of that number, of a
    device with these names. They are files that Spark has not read, and those that collectors are writing."""
    topics, marks = Topics(root_topic), [quote(f"/{name}/")[1:-1].encode() for name in names]
    files, found = files_in(landing), []
    aside = (f"{UNREADABLE}/{name}" for name in files.glob(f"{UNREADABLE}/*.ndjson"))
    for name in (*files.glob("*.ndjson"), *files.glob(".*.spool"), *aside):
        with contextlib.suppress(OSError):  # what can be read of it counts
            for line in files.lines(name):
                if any(mark in line for mark in marks):
                    rows = (parse(one, topics) for one in expanded(line))
                    mine = (
                        row for row in rows if (row["epoch"], row["seq"]) == (epoch, seq) and row["device"] in names
                    )
                    found += [(files.path(name), row["received"] / 1e6) for row in mine]
    return found

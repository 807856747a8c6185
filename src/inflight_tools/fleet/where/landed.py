"""Landing files that contain a message, in folders of this machine."""

import contextlib
from json.encoder import encode_basestring_ascii as quote
from pathlib import Path

from inflight_tools.fleet.spark.parse import Topics, parse
from inflight_tools.fleet.spark.storage import ARCHIVE

_ANY = Topics("")
_SLACK_S = 2  # of a file's time of change
_MOST = 32  # files that are searched for a delivery: each after it in time, its own file first


def _changed(path):
    try:
        return path.stat().st_mtime
    except FileNotFoundError:  # moved away, or finished, meanwhile
        return 0


def _lines(path):
    with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
        yield from file


def file_of(landing, root, delivery):
    """The path of the landing file with a delivery that is in the tables, as History.deliveries() tells it. None if
    there is none any more."""
    name = f"{delivery['by']}-*.ndjson"
    at = round(1000 * delivery["received"])
    present = [*Path(landing).glob(name), *Path(root, ARCHIVE).rglob(name)]
    later = [(changed, path) for path in present if (changed := _changed(path)) >= at / 1000 - _SLACK_S]
    start = f'{{"at":{at},"by":'.encode()
    for _, path in sorted(later)[:_MOST]:
        for line in _lines(path):
            if line.startswith(start) and parse(line, _ANY)["topic"] == delivery["topic"]:
                return str(path)
    return None


def waiting(landing, root_topic, device, epoch, seq):
    """[(path, time of receipt in s since 1970)] of the files in `landing` that have a message of that number. They are
    files that Spark has not read, and those that collectors are writing."""
    topics, mark = Topics(root_topic), quote(f"/{device}/")[1:-1].encode()
    found = []
    for path in (*Path(landing).glob("*.ndjson"), *Path(landing).glob(".*.spool")):
        for line in _lines(path):
            if mark in line:
                row = parse(line, topics)
                if (row["device"], row["epoch"], row["seq"]) == (device, epoch, seq):
                    found.append((str(path), row["received"] / 1e6))
    return found

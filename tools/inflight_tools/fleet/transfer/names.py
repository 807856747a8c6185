"""What landing files are called in object storage, and in which order they travel.

- An object's name ends with the SHA-256 of its content. So an incomplete or damaged one is recognized, and a file that
  is uploaded twice is one object.
- The files of one collector travel in the order in which it wrote them. A marker in the tables proves that all that the
  broker had for its collector before has landed, so no file may arrive before an older one.
"""

import hashlib
import re

_OBJECT = re.compile(r"(.+)\.([0-9a-f]{64})\.ndjson", re.DOTALL)
_WRITTEN = re.compile(r"(.+)-(\d+)-(\d+)", re.DOTALL)  # by a collector: its name, its start, a number
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")  # S3 lists names as XML, which has none of them
_LONGEST = 255  # bytes of a file name
ENDING = ".ndjson"
PART = ".part"  # behind the name of a hidden file, until it is whole


class Blocked(Exception):
    """One file cannot be moved. It holds up the later ones of its collector, and no others."""


def object_name(name, content):
    """The name of the object that has the `content` of the landing file `name`."""
    if is_whole(name, content):  # it was downloaded
        return name
    return f"{name.removesuffix(ENDING)}.{hashlib.sha256(content).hexdigest()}{ENDING}"


def part_name(name):
    """The name of the hidden file into which an object is downloaded."""
    return f".{name}{PART}"


def check_name(name):
    """Raises Blocked if object storage, or a file system, cannot have an object of that name."""
    try:
        size = len(part_name(name).encode())
    except UnicodeEncodeError:
        raise Blocked(f"the object name {name!a} is not UTF-8; rename the file") from None
    if _CONTROL.search(name):
        raise Blocked(f"the object name {name!a} has control characters; rename the file")
    if size > _LONGEST:
        raise Blocked(f"the object name {name} is too long; rename the file")


def is_object(name):
    """Whether it is a name that object_name() gives."""
    return bool(_OBJECT.fullmatch(name))


def is_whole(name, content):
    """Whether this is the content for which object_name() gave the name."""
    found = _OBJECT.fullmatch(name)
    return bool(found) and found[2] == hashlib.sha256(content).hexdigest()


def _place(name):
    """(collector, place among its files)"""
    stem = found[1] if (found := _OBJECT.fullmatch(name)) else name.removesuffix(ENDING)
    written = _WRITTEN.fullmatch(stem)
    return (written[1], (int(written[2]), int(written[3]))) if written else (stem, (0, 0))


def collector(name):
    """Whose file it is."""
    return _place(name)[0]


def in_order(listed):
    """{name: bytes} of files, each collector's in the order in which they were written, none before an older one.

    listed: a function that lists them. What is written while it lists may be seen without what was written just before:
    so it is called twice, and files that are newer than all of the first time are left out."""
    newest = dict(sorted(map(_place, listed())))
    found = {name: size for name, size in listed().items() if _is_until(newest, *_place(name))} if newest else {}
    return {name: found[name] for name in sorted(found, key=_place)}


def _is_until(newest, writer, place):
    return writer in newest and place <= newest[writer]

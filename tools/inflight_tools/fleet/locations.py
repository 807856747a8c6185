"""Where a command finds landing files and tables, and what of them it takes."""

import re
from pathlib import Path
from urllib.parse import unquote

import typer

from inflight_tools.fleet.query.times import span
from inflight_tools.fleet.spark.storage import without_credentials
from inflight_tools.output import failure

_PATTERN = re.compile(r"[*?\[\]{}\\:]")


def location(data, given, name):
    """Folder or URI of the landing files or the tables: as given, else below `data`."""
    return named(given) if given else str((data / name).absolute())


def for_spark(place):
    """`place`, a folder or a URI for Spark. Ends the command if it would be another one for Spark, or none: tables
    would stay empty, without an error."""
    if "://" not in place and (found := _PATTERN.search(place)):
        raise failure(
            f"{place}: Spark reads {found[0]} in the name of a folder as something else: give another folder, or a "
            "symbolic link to it with another name"
        )
    return place


def present(place, advice):
    """Ends the command if the folder `place` of this machine does not exist: its name may be wrong. Spark would take a
    minute to find that, and some of its ways do not call it an error."""
    scheme, _, path = place.rpartition("://")
    if scheme in ("", "file") and not Path(unquote(path) if scheme else path).is_dir():
        raise failure(f"there is no folder {place}: {advice}")


def named(place):
    """`place`, a folder or a URI. Ends the command if it is a URI with credentials."""
    try:
        return without_credentials(place)
    except ValueError as e:
        raise failure(str(e)) from None


def locations(data, landing, of):
    """(landing files, tables), see location(). Ends the command if a folder that is named does not exist."""
    if not (landing and of):
        present(str(data), "name that of `inflight fleet collect` with --data")
    for given, option in ((landing, "--landing"), (of, "--of")):
        if given:
            present(given, f"name another one with {option}")
    return location(data, landing, "landing"), location(data, of, "tables")


def time_span(since, until, now):
    """(since, until) in s since 1970, see span()."""
    try:
        return span(since, until, now)
    except ValueError as e:
        raise typer.BadParameter(str(e)) from None

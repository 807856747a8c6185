"""Delta tables, opened without Spark."""

import re

from .spark.storage import ARCHIVE

BATCHES = "inflight"  # name of the application transactions
_PART = re.compile(r"parts/(\d+)-")
_ANEW = "make new ones: move the files below {} back to the landing folder, and give an empty folder with --to"
_MISSING = re.compile(
    r"\.parquet\b.*(not found|no such file|not exist)|no files found .*\.parquet\b", re.IGNORECASE | re.DOTALL
)
_CHANGED = re.compile(r"%[0-9A-Fa-f]{2}|\\")  # what deltalake reads as another character


class WrongTables(RuntimeError):
    """The tables cannot be continued, or read. The text says what to do."""


def opened(files, name):
    """The DeltaTable `name` in the Folder `files` as it is now, None if there is none. Raises WrongTables."""
    from deltalake import DeltaTable
    from deltalake.exceptions import TableNotFoundError

    if "://" not in files.path("") and (found := _CHANGED.search(files.path(""))):
        raise WrongTables(
            f"the tables cannot be in {files.path('')}: the package deltalake reads {found[0]} in the name of a folder "
            "as another character: give another folder"
        )
    try:
        return DeltaTable(files.path(name))
    except TableNotFoundError:
        if files.glob(f"{name}/batch=*"):
            raise WrongTables(
                f"the tables in {files.path('')} are of the format before Delta Lake: use the version that "
                f"wrote them, or {_ANEW.format(files.path(ARCHIVE))}"
            ) from None
        return None


def last_batch(table):
    """The highest number of a batch in a DeltaTable, -1 if there is none; None: there is no table."""
    last = table and table.transaction_version(BATCHES)
    return -1 if last is None else last


def batch_of(path):
    """The number of the batch that a table's file is of; of merged files, the last one. -1: of another writer."""
    found = _PART.match(path)
    return int(found[1]) if found else -1


def advice(text):
    """What to say before the text of an error: "" unless it tells that a file of a table is missing."""
    if not _MISSING.search(text):
        return ""
    return (
        f"a file of the tables is missing: restore it, or {_ANEW.format(f'the folder {ARCHIVE} beside the tables')}; "
    )

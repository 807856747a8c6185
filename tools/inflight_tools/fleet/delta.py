"""Delta tables, opened without Spark."""

import re

from .spark.storage import ARCHIVE

BATCHES = "inflight"  # name of the application transactions
TOLD = "inflight-rows-{}"  # of the ledger: how many rows its batches have written into a table
GONE = "inflight-gone"  # how many rows merges of a table took away: they added them up, or these were too old
LANDED = "landed"  # what a commit calls the list of its batch's landing files
LOG = "_delta_log"
# In the name of the folder of files with rows that devices may still date, and no other rows: few, so that what they
# tell is quickly done.
UNDATED = "-undated"
REPAIR = "the next start of `inflight fleet tables` repairs the tables from the landing files, or says what to do"
_PART = re.compile(r"parts/(\d+)-")
_ANEW = "make new ones: move the files below {} back to the landing folder, and give an empty folder with --to"
ANEW = _ANEW.format(f"the folder {ARCHIVE} beside the tables")
_MISSING = re.compile(
    r"\.parquet\b.*(not found|no such file|not exist)|no files found .*\.parquet\b", re.IGNORECASE | re.DOTALL
)
_CHANGED = re.compile(r"%[0-9A-Fa-f]{2}|\\")  # what deltalake reads as another character


class WrongTables(RuntimeError):
    """The tables cannot be continued, or read. The text says what to do."""


def opened(files, name):
    """The DeltaTable `name` in the Folder `files` as it is now, None if there is none. Raises WrongTables."""
    from deltalake import DeltaTable
    from deltalake.exceptions import DeltaError, TableNotFoundError

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
    except DeltaError as error:
        if files.is_local:
            said = str(error).splitlines()[0]
            raise WrongTables(f"the log of the table {files.path(name)} is damaged ({said}): {REPAIR}") from None
        raise


def last_batch(table):
    """The highest number of a batch in a DeltaTable, -1 if there is none; None: there is no table."""
    last = table and table.transaction_version(BATCHES)
    return -1 if last is None else last


def batch_of(path):
    """The number of the batch that a table's file is of; of merged files, the last one. -1: of another writer."""
    found = _PART.match(path)
    return int(found[1]) if found else -1


def counted(table, name):
    """The number that the DeltaTable has under the name of a transaction, None if it has none."""
    found = table and table.transaction_version(name)
    return None if found is None or found < 0 else found


def columns_of(table, *names):
    """Columns of the list of a DeltaTable's files, as lists; without rows for None."""
    found = table and table.get_add_actions(flatten=True)
    return [found[name].to_pylist() if table else [] for name in names]


def rows_written(table, last):
    """How many rows the batches up to number `last` have written into a DeltaTable, as its log has it."""
    paths, rows = columns_of(table, "path", "num_records")
    kept = sum(many or 0 for path, many in zip(paths, rows, strict=True) if batch_of(path) <= last)
    return kept + (counted(table, GONE) or 0)


def opened_together(files, names):
    """{name: DeltaTable in the Folder `files`, None if there is none}, with "ledger" among the names. A batch writes
    the ledger last, so the other tables may have rows of one batch more than the ledger; they lack none that the ledger
    has. Opened again if a batch ended meanwhile: files that were merged after it have its number."""
    while True:
        found = {"ledger": opened(files, "ledger")} | {name: opened(files, name) for name in names if name != "ledger"}
        if last_batch(opened(files, "ledger")) == last_batch(found["ledger"]):
            return found


def differences(tables):
    """What is not as the ledger has it, of what opened_together() returns: [{table, told, found}], with the rows that
    the ledger's batches have written into the table, and those that it has of them."""
    ledger = tables["ledger"]
    found = []
    for name, table in tables.items():
        told = counted(ledger, TOLD.format(name))
        if told is not None and (rows := rows_written(table, last_batch(ledger))) != told:
            found.append({"table": name, "told": told, "found": rows})
    return found


def lacking(differences):
    """What differences() has found, as words."""
    words = "the table {table} has {found:,} of the {told:,} rows that its batches have written"
    return ", ".join(words.format(**one) for one in differences) or "a file of the tables is damaged"


def advice(text):
    """What to say before the text of an error: "" unless it tells that a file of a table is missing."""
    if not _MISSING.search(text):
        return ""
    return f"a file of the tables is missing: restore it, or {ANEW}; "

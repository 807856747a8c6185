"""Whether a query may continue the tables that it finds: they must be of its fleet and format, and their checkpoint
must know all their batches. Otherwise batch numbers would be used again, and rows be left out."""

import json
from pathlib import Path
from urllib.parse import quote

from rich.text import Text

from inflight_tools.fleet.collect.spool import make_folder
from inflight_tools.fleet.delta import ANEW, WrongTables, differences, lacking, opened_together
from inflight_tools.output import first_line, log
from inflight_tools.visible import visible

from .batch import Tables
from .landing import UNREADABLE
from .repair import CHECKPOINT, NOTES, TABLES, Checkpoint, drop_torn, repair, take_back
from .storage import Storage

FORMAT = 3  # of the tables; increased when this version cannot continue older ones


def _noted(files):
    """What pipeline.json says; None if it is missing or damaged."""
    try:
        noted = json.loads(files.text(NOTES))
    except (FileNotFoundError, ValueError):
        return None
    return noted if isinstance(noted, dict) else None


def advice(spark, root):
    """What to say before the error of a query that failed: "" unless another Spark began the checkpoint."""
    began = (_noted(Storage(spark, root)) or {}).get("spark", spark.version)
    if began == spark.version:
        return ""
    return f"Spark {began} began the checkpoint, this is {spark.version}: use that one, or --new-checkpoint; "


def begin(spark, landing, root, topics, new_checkpoint=False):
    """Returns the number of the tables' batch that is batch 0 of their checkpoint. What a power cut has left is
    repaired before. Raises WrongTables.

    landing, root, topics: as in stream.start(). new_checkpoint: give up the old one; the new one reads all files in
    `landing`."""
    files, tables = Storage(spark, root), Tables(spark, root)
    noted = _noted(files)
    _compare(noted or {}, {"format": FORMAT, "topics": topics}, landing, files)
    if files.is_local:
        make_folder(Path(root))
        drop_torn(files)
    last = tables.last_batch()
    if not noted and last >= 0 and not new_checkpoint:
        raise WrongTables(
            f"{files.path(NOTES)} is missing or damaged: restore it, or, if the tables are of this fleet and version, "
            "continue with --new-checkpoint"
        )
    noted, landed = noted or {}, Storage(spark, landing)
    if files.is_local and landed.is_local and ("repair" in noted or not new_checkpoint):
        noted = repair(files, landed, tables, noted)
        last = tables.last_batch()
    first = noted.get("first", 0)
    if files.is_local and landed.is_local:
        for name, text in Checkpoint(files.path(CHECKPOINT)).moved(Path(landing)):
            files.write(f"{CHECKPOINT}/{name}", text)
    if new_checkpoint:
        files.delete(CHECKPOINT)
        tables.drop_unfinished()
        first = tables.last_batch() + 1
    else:
        known = first + files.last_number(f"{CHECKPOINT}/offsets")
        if last > known:
            what = f"ends with batch {known}" if known >= first else "is missing"
            raise WrongTables(
                f"the tables in {root} have batches up to {last}, but their checkpoint {what}: restore "
                f"{files.path(CHECKPOINT)}, or continue with --new-checkpoint. That reads all files in {landing}: "
                "what is in the tables already counts as repeated"
            )
    _expect_all(files, tables, landing, new_checkpoint)
    version = spark.version if new_checkpoint else noted.get("spark", spark.version)
    found = {"format": FORMAT, "topics": topics, "spark": version, "first": first}
    if found != noted:
        files.write(NOTES, json.dumps(found))
    tables.create()
    return first


def set_aside(spark, landing, root, watch, error):
    """Moves the landing files that an error names, and that cannot be read, to a folder beside them, so that the others
    go on. Returns whether there were any. watch: a Watch."""
    landed, files = Storage(spark, landing), Storage(spark, root)
    named = [name for name in watch.unread() if "/" not in name and (name in error or quote(name) in error)]
    why = {name: said for name in named if (said := landed.unreadable(name))}
    if why and files.is_local:
        take_back(files, Tables(spark, root))
    for name, said in why.items():
        landed.move(name, UNREADABLE)
        text = f": {visible(name)} cannot be read ({first_line(said)}), and is set aside in {landed.path(UNREADABLE)}: "
        log(Text.assemble(("ALARM", "bold red"), text + "put what can be read of it back under another name"))
    return bool(why)


def _expect_all(files, tables, landing, new_checkpoint):
    """Compares the tables with what the ledger's batches have written into them."""
    if not (lack := differences(opened_together(files, TABLES))):
        return
    if not new_checkpoint:
        raise WrongTables(
            f"{lacking(lack)}: {ANEW}, or continue without these rows with --new-checkpoint. That reads "
            f"all files in {landing}: what is in the tables already counts as repeated"
        )
    log(f"{lacking(lack)}: from now on these count as all")
    tables.accept()


def _compare(noted, ours, landing, files):
    what = f"the tables in {files.path('')} are of"
    if noted.get("topics", ours["topics"]) != ours["topics"]:
        raise WrongTables(f"{what} --root {noted['topics']}, this is {ours['topics']}: give that one, or other tables")
    if noted.get("format", ours["format"]) != ours["format"]:
        raise WrongTables(
            f"{what} format {noted['format']}, this is {ours['format']}: use the version that wrote them, or make new "
            f"ones: move the files in {files.archived(landing)} back to {landing}, and give an empty folder with --to"
        )

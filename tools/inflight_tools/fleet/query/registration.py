"""Changes of the registry that depend on the names of devices: whether the tables let two be one device."""

import difflib

from inflight_tools.fleet import registry

from .database import Database
from .views import OVERLAP_S

_LIST = "`inflight fleet device list` shows them"
# Journals of a device under different names that were in use at the same time. Of one journal the numbers tell.
_TOGETHER = f"""
WITH journals AS (
    SELECT epoch, coalesce(hops, 0) AS hops, min(first_received) AS began, max(last_received) AS ended
    FROM ({{}}) GROUP BY ALL)
SELECT count(*) AS many FROM journals AS one JOIN journals AS other
    ON one.hops < other.hops AND one.epoch <> other.epoch
WHERE least(one.ended, other.ended) - greatest(one.began, other.began) > INTERVAL {OVERLAP_S} SECONDS
"""


def rename(root, old, new):
    """From now on the device `old` of the tables in the folder `root` is `new`, which may have rows of its own. Raises
    ValueError if it is unknown, or these are two devices; as registry.changing() does."""
    with registry.changing(root, old, {registry.RENAMED: new}) as found:
        with Database(root, found) as database:
            present = database.names(old)[0]
            devices = set(database.values("SELECT DISTINCT device FROM every_ledger"))
        if present != old:
            raise ValueError(
                f"{old} is {present} now: rename that, or take the other name back: "
                f"`inflight fleet device rename {old} --undo`"
            )
        known = registry.names(found)
        if old == known.get(new, [new])[0]:
            why = f"{new} was renamed to it: forget one of the names with --undo, {_LIST}"
            raise ValueError(f"{old} cannot become {new}: {why if new in known else 'that is its name'}")
        if old not in devices:
            near = difflib.get_close_matches(old, devices, 3) or sorted(devices)[:3]
            raise ValueError(f"there is no device {old} in the tables: there is {', '.join(near) or 'none'}")
        found.setdefault(old, {})[registry.RENAMED] = new
        with Database(root, found) as database:
            why = database.names(old)[0] == old and "sent the same number of one journal"
            together = database.row(_TOGETHER.format(database.named("stored_ledger", old)))["many"]
            why = why or (together and "sent at the same time for more than a minute")
        if why:
            raise ValueError(f"{old} and {new} are two devices, which have {why}: retire one, or write another name")


def change(root, device, field, value):
    """Notes the value of a field, None: takes it out, also where an earlier name has it. Raises as registry.changing()
    does."""
    fields = {} if value is None else {field: value}
    with registry.changing(root, device, fields) as found:
        mine = [device]
        if field != registry.RENAMED and device in registry.names(found):
            with Database(root, found) as database:  # it tells names apart that are two devices after all
                mine = database.names(device)
        for name in mine:
            found.get(name, {}).pop(field, None)
        found.setdefault(mine[0], {}).update(fields)

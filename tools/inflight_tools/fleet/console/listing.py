"""All devices of a fleet in memory: found, sorted and shown page by page, without a query."""

import functools
import urllib.parse

import pyarrow.compute as pc

from inflight_tools.fleet.query.facts import device_of

SIZE = 50  # devices on a page
_WORDS = 8  # that are searched for: each takes time
TEXTS = ("device", "state")
# {column: heading}. Without a column the worst devices come first.
COLUMNS = {
    "device": "Device",
    "state": "State",
    "": "Health",
    "accepted": "Accepted",
    "delivered": "Delivered",
    "lost": "Lost",
    "missing": "Other missing",
    "restarts": "Restarts",
    "live": "In journal",
    "holds_s": "It holds",
    "seen_at": "Last message",
}


class Listing:
    """table: what facts.listed() returns. names: as registry.names() returns them."""

    def __init__(self, table, names):
        self._table, self._names = table.combine_chunks(), names

    def device(self, name):
        """The facts of the device that has or had this name, None: it is not known."""
        name = self._names.get(name, [name])[0]
        at = pc.index(self._table["device"], name).as_py()
        return device_of(self._table.slice(at, 1).to_pylist()[0]) if at >= 0 else None

    def page(self, find="", group="", sort="", number=0):
        return Page(self._table, find, group, sort, number)


class Page:
    """The devices that have all words of `find`, and are in a group, "": in any. sort: of COLUMNS; with - before it the
    largest come first."""

    def __init__(self, table, find, group, sort, number):
        words = find.split()[:_WORDS]
        self.find, self.group, self.sort = " ".join(words), group, sort if sort.removeprefix("-") in COLUMNS else ""
        tests = [pc.match_substring(table["words"], word.lower()) for word in words]
        tests += [pc.equal(table["label"], group)] if group else []
        rows = pc.indices_nonzero(functools.reduce(pc.and_, tests, pc.is_valid(table["device"])))
        self.found, self.last = len(rows), max(0, len(rows) - 1) // SIZE
        self.number = min(number, self.last)
        if column := self.sort.removeprefix("-"):
            order = "descending" if self.sort.startswith("-") else "ascending"
            rows = rows.take(pc.sort_indices(table[column].take(rows), sort_keys=[("", order)]))
        self.devices = list(map(device_of, table.take(rows[self.number * SIZE :][:SIZE]).to_pylist()))

    def heads(self):
        """(heading, whether it is of numbers, aria-sort, address of the page that is sorted so) of each column."""
        for column, heading in COLUMNS.items():
            first, other = (column, f"-{column}") if column in ("", *TEXTS) else (f"-{column}", column)
            order = "none" if self.sort.removeprefix("-") != column else "ascending"
            order = "descending" if order == "ascending" and self.sort.startswith("-") else order
            sort = other if column and self.sort == first else first
            yield heading, column not in ("", *TEXTS), order, self.address(sort=sort, number=0)

    def address(self, **change):
        """Of this page, with something changed."""
        asked = {name: getattr(self, name) for name in ("find", "group", "sort", "number")} | change
        return "devices?" + urllib.parse.urlencode({name: value for name, value in asked.items() if value})

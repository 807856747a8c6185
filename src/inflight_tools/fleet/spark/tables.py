"""The tables: folders of Parquet, one folder for each micro-batch.

Exactly once
------------
- A micro-batch writes `batch=N` in each table. Spark writes `_SUCCESS` last; a folder without it does not count.
- A batch that is repeated after a crash replaces its folders.
- merge() writes the rows of many batches into one folder `batch=M-N`. Once that has its `_SUCCESS`, it counts instead
  of the folders in its range.
- The folders' names are the only metadata. So no log grows, and any tool can read the Parquet files.
"""

import re

from .storage import Storage

_FOLDER = re.compile(r"batch=(\d+)(?:-(\d+))?")
FANOUT = 16  # so many folders are merged into one, and so many of those into a larger one


class Span:
    """The folder `name` with the batches `first` to `last`."""

    def __init__(self, first, last, name):
        self.first, self.last, self.name = first, last, name

    def covers(self, other):
        return self.first <= other.first and other.last <= self.last


class Table:
    """The table `name` in the folder or URI `root`. `schema`: a DDL string. `fold`: for a table of partial sums, the
    function that adds them up."""

    def __init__(self, spark, root, name, schema, fold=None):
        self.name = name
        self._spark, self._schema, self._fold = spark, schema, fold
        self._files = Storage(spark, Storage(spark, root).path(name))

    def _names(self):
        return [name for name in self._files.glob("*") if _FOLDER.fullmatch(name)]

    def _complete(self):
        for name in self._names():
            first, last = _FOLDER.fullmatch(name).groups()
            if self._files.exists(f"{name}/_SUCCESS"):
                yield Span(int(first), int(last or first), name)

    def spans(self):
        """The folders that count: complete, and not in the range of another. Oldest first."""
        kept = []
        for span in sorted(self._complete(), key=lambda span: (span.first, -span.last)):
            if not (kept and kept[-1].covers(span)):
                kept.append(span)
        return kept

    def write(self, rows, batch, any_rows):
        """Writes, or replaces, the rows of batch number `batch`. any_rows: whether there are any; without rows there is
        no folder."""
        folder = f"batch={batch}"
        if any_rows:
            rows.write.mode("overwrite").parquet(self._files.path(folder))
        else:
            self._files.delete(folder)

    def last_batch(self):
        """The highest number of a batch, -1 if there is none."""
        return max((span.last for span in self.spans()), default=-1)

    def read(self, before=None, since=0):
        """A DataFrame of all rows, or of the batches from `since` on, and before `before`."""
        return self._read([one for one in self.spans() if one.last >= since and (before is None or one.last < before)])

    def _read(self, spans):
        if not spans:
            return self._spark.createDataFrame([], self._schema)
        rows = self._spark.read.schema(self._schema).parquet(*(self._files.path(span.name) for span in spans))
        return self._fold(rows) if self._fold else rows

    def merge(self, everything=False):
        """Merges folders of finished batches: FANOUT batches into one folder, FANOUT of those into a larger one. So
        each row is rewritten only a few times. With `everything` all folders become one. Returns how many folders were
        merged. A reader that has listed the folders must list them again."""
        self._sweep()
        merged = 0
        while run := self._next_run(everything):
            self._replace(run)
            merged += len(run)
        return merged

    def _next_run(self, everything):
        *done, last = self.spans() or [None]  # the last batch may be repeated after a crash
        if everything:
            return done if len(done) > 1 else None
        size = FANOUT
        while last and size <= last.last:
            groups = {}
            for span in done:
                if span.first // size == span.last // size < last.last // size:
                    groups.setdefault(span.first // size, []).append(span)
            for run in groups.values():
                if len(run) > 1:
                    return run
            size *= FANOUT
        return None

    def _replace(self, run):
        rows = self._read(run).coalesce(self._files_for(run))
        rows.write.mode("overwrite").parquet(self._files.path(f"batch={run[0].first}-{run[-1].last}"))
        self._sweep()

    def _files_for(self, run):
        size = sum(self._files.size(span.name) for span in run)
        return max(1, size >> 27)  # 128 MiB each

    def _sweep(self):
        """Removes folders in the range of another, and incomplete folders of a merge that was killed."""
        kept = self.spans()
        complete = list(self._complete())
        for span in complete:
            if any(one.covers(span) and one.name != span.name for one in kept):
                self._files.delete(span.name)
        whole = {span.name for span in complete}
        for name in self._names():
            if "-" in name and name not in whole:
                self._files.delete(name)

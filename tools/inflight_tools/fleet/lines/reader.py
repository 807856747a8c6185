"""Lines of landing files to rows, for Arrow batches, as Spark's Python workers call it: usual telemetry by columns, all
other lines by parse()."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .gathered import MARK, expanded
from .parse import COLUMNS, Topics, parse
from .rows import SCHEMA
from .telemetry import Telemetry

_AT_ONCE = 1 << 25  # bytes of lines that become rows together


def reader(root):
    """Returns a function for DataFrame.mapInArrow(): from lines of landing files, as bytes, to rows of SCHEMA, in
    another order. `root`: of the devices' topics."""

    def read(batches):
        topics = Topics(root)
        kinds = Telemetry(root), Telemetry(root, expiry=True)  # in turn: lines without properties are matched once
        for batch in batches:
            for lines in _portions(batch.column(0)):
                for telemetry in kinds:
                    if len(lines):
                        usual, rows = telemetry(lines)
                        if rows:
                            yield rows
                        lines = lines.filter(pc.invert(usual))
                if len(lines):
                    yield parsed(lines.to_pylist(), topics)

    return read


def _portions(lines):
    """Yields the lines, and those that gathered ones stand for, as Arrow arrays that a worker has space for."""
    gathered = pc.match_substring(lines, MARK)
    singly = lines.filter(pc.invert(gathered))
    portions = np.cumsum(pc.binary_length(singly).to_numpy(), dtype="int64") // _AT_ONCE
    for number in np.unique(portions):
        yield singly.filter(pa.array(portions == number))
    more, size = [], 0
    for line in lines.filter(gathered).to_pylist():
        found = expanded(line)
        more += found
        size += sum(map(len, found))
        if size >= _AT_ONCE:
            yield pa.array(more, lines.type)
            more, size = [], 0
    if more:
        yield pa.array(more, lines.type)


def parsed(lines, topics):
    """The rows of lines. One that does not fit the columns is a dead letter, and the others go on."""
    try:
        return _in_columns([parse(line, topics) for line in lines])
    except (pa.ArrowException, ValueError, TypeError, OverflowError) as error:
        if len(lines) == 1:
            problem = f"cannot be read: {error}"[:500]
            return _in_columns([dict.fromkeys(COLUMNS) | {"problem": problem, "payload": lines[0]}])
    half = len(lines) // 2
    parts = [parsed(lines[:half], topics), parsed(lines[half:], topics)]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def _in_columns(rows):
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

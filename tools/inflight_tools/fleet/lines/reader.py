"""Lines of landing files to rows, for Arrow batches, as Spark's Python workers call it: usual telemetry by columns, all
other lines by parse()."""

import pyarrow as pa
import pyarrow.compute as pc

from .gathered import MARK, expanded
from .parse import Topics, parse
from .rows import SCHEMA
from .telemetry import Telemetry


def reader(root):
    """Returns a function for DataFrame.mapInArrow(): from lines of landing files, as bytes, to rows of SCHEMA, in
    another order. `root`: of the devices' topics."""

    def read(batches):
        topics = Topics(root)
        kinds = Telemetry(root), Telemetry(root, expiry=True)  # in turn: lines without properties are matched once
        for batch in batches:
            lines = _expanded(batch.column(0))
            for telemetry in kinds:
                if len(lines):
                    usual, rows = telemetry(lines)
                    if rows:
                        yield rows
                    lines = lines.filter(pc.invert(usual))
            if len(lines):
                yield parsed(lines, topics)

    return read


def _expanded(lines):
    gathered = pc.match_substring(lines, MARK)
    if not pc.any(gathered).as_py():
        return lines
    more = [one for line in lines.filter(gathered).to_pylist() for one in expanded(line)]
    return pa.concat_arrays([lines.filter(pc.invert(gathered)), pa.array(more, lines.type)])


def parsed(lines, topics):
    rows = [parse(line, topics) for line in lines.to_pylist()]
    columns = [pa.array([row[field.name] for row in rows], field.type) for field in SCHEMA]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)

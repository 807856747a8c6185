"""What a table's log says of a Parquet file, so that readers may leave the file out."""

import datetime

TIME = "received"


def statistics(file):
    """The statistics, as Delta Lake defines them, of an open Parquet file: its rows, and when they were received."""
    import pyarrow.parquet

    found = pyarrow.parquet.read_metadata(file)
    stats = {"numRecords": found.num_rows}
    first, last = _bounds(found, TIME)
    if first:
        stats["minValues"] = {TIME: _milliseconds(first)}
        stats["maxValues"] = {TIME: _milliseconds(last, datetime.timedelta(microseconds=999))}
    return stats


def least(file, name):
    """The least value of a column of an open Parquet file; None if it does not tell."""
    import pyarrow.parquet

    return _bounds(pyarrow.parquet.read_metadata(file), name)[0]


def _bounds(found, name):
    groups = (found.row_group(number) for number in range(found.num_row_groups))
    columns = (group.column(number) for group in groups for number in range(group.num_columns))
    told = [column.statistics for column in columns if column.path_in_schema == name]
    told = [one for one in told if one and one.has_min_max]
    return (min(one.min for one in told), max(one.max for one in told)) if told else (None, None)


def _milliseconds(moment, up=datetime.timedelta()):
    """The format has no microseconds, so a maximum is rounded up."""
    return (moment + up).strftime("%Y-%m-%dT%H:%M:%S.") + f"{(moment + up).microsecond // 1000:03}Z"

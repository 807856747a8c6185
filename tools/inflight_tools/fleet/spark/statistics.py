"""What a table's log says of a Parquet file, so that readers may leave the file out."""

import datetime

TIME = "received"


def statistics(file):
    """The statistics, as Delta Lake defines them, of an open Parquet file: its rows, and when they were received."""
    import pyarrow.parquet

    found = pyarrow.parquet.read_metadata(file)
    times = [column.statistics for column in _columns(found) if column.path_in_schema == TIME]
    times = [one for one in times if one and one.has_min_max]
    stats = {"numRecords": found.num_rows}
    if times:
        stats["minValues"] = {TIME: _milliseconds(min(one.min for one in times))}
        stats["maxValues"] = {TIME: _milliseconds(max(one.max for one in times), datetime.timedelta(microseconds=999))}
    return stats


def _columns(found):
    groups = (found.row_group(number) for number in range(found.num_row_groups))
    return (group.column(number) for group in groups for number in range(group.num_columns))


def _milliseconds(moment, up=datetime.timedelta()):
    """The format has no microseconds, so a maximum is rounded up."""
    return (moment + up).strftime("%Y-%m-%dT%H:%M:%S.") + f"{(moment + up).microsecond // 1000:03}Z"

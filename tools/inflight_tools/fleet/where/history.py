"""What the tables know of one device."""

from inflight_tools.fleet.proof import COUNTED

# When an undated message of `raw` was made, if the device has told.
_DATED = """
SELECT arg_max(time - to_microseconds(CAST(1e6 * (clocks.up - raw.up) AS BIGINT)), clocks.boot) FROM clocks
WHERE clocks.epoch = raw.epoch AND clocks.boot <= raw.seq AND raw.seq < clocks.seq AND raw.up <= clocks.up
"""
_FILE = ("path", "modification_time")


class History:
    """What a Database with the views of views.define() knows of `device`. From now on it has the rows of that device
    only."""

    def __init__(self, database, device):
        self._database = database
        self.lacks_rows = any(one["table"] == "raw" for one in database.differences)  # of any device
        database.only(device)
        self.ranges = database.groups("SELECT epoch, {'lo': lo, 'hi': hi} FROM ranges ORDER BY epoch, lo")

    def epochs(self):
        """The epochs of the device's journals, sorted by when their first message was received."""
        query = """SELECT epoch, min(received) AS began FROM raw WHERE seq IS NOT NULL GROUP BY epoch
            ORDER BY began, epoch"""
        began = [row["epoch"] for row in self._database.rows(query)]
        old = sorted(self.ranges.keys() - set(began))  # older than what `raw` keeps
        return old + began

    def has(self, epoch, seq):
        return any(one["lo"] <= seq <= one["hi"] for one in self.ranges.get(epoch, ()))

    def bounds(self, epoch):
        """(lowest, highest) number that arrived."""
        found = self._database.row("SELECT min(seq) AS lo, max(seq) AS hi FROM raw WHERE epoch = ?", epoch)
        numbers = [number for one in (found, *self.ranges.get(epoch, ())) for number in one.values()]
        numbers = [number for number in numbers if number is not None]
        return min(numbers), max(numbers)

    def told(self, epoch, seq):
        """What the device told of the lowest number that the broker had not acknowledged: a dict with the highest one,
        `oldest`; when it told last, `last`; and when it told first that `seq` was acknowledged, `acknowledged`: times
        of receipt in s since 1970, None if never."""
        return self._database.row(
            """SELECT max(oldest) AS oldest, epoch(max(received)) AS last,
                epoch(min(received) FILTER (oldest > ?)) AS acknowledged
            FROM raw WHERE seq IS NOT NULL AND oldest IS NOT NULL AND epoch = ?""",
            seq,
            epoch,
        )

    def deliveries(self, epoch, seq):
        """The deliveries of a number, as dicts, the first one first. Times are in s since 1970. `properties`: a dict of
        the properties of MQTT 5 that the sender gave, correlation in base64."""
        found = self._database.rows(
            f"""SELECT epoch(received) AS received, "by", topic, qos, dup, kind, problem, first,
                epoch(coalesce(made, ({_DATED}))) AS made,
                {{'expiry': expiry, 'content_type': content_type, 'payload_format': payload_format,
                'response_topic': response_topic, 'correlation': base64(correlation),
                'user_properties': user_properties}} AS properties
            FROM raw WHERE epoch = ? AND seq = ? ORDER BY first DESC, received""",
            epoch,
            seq,
        )
        for one in found:
            one["properties"] = {name: value for name, value in one["properties"].items() if value is not None}
        return found

    def rows(self, epoch, seq):
        """{table: how many rows of it a number has}"""
        counted = "SELECT count(*) AS many FROM {} WHERE epoch = ? AND seq = ?"
        names = ("raw", "measurements", "health", "dead_letters")
        return {name: self._database.row(counted.format(name), epoch, seq)["many"] for name in names}

    def written(self, epoch, seq):
        """When the file of `raw` that has the number was written, in s since 1970; None without one."""
        found = self._database.rows("SELECT filename FROM raw WHERE epoch = ? AND seq = ? AND first", epoch, seq)
        actions = self._database.tables["raw"].get_add_actions(flatten=True)
        files = zip(*(actions[name].to_pylist() for name in _FILE), strict=True)
        times = {path.rpartition("/")[2]: at / 1000 for path, at in files}
        return times.get(found[0]["filename"].rpartition("/")[2]) if found else None

    def places(self):
        """[(epoch, lowest, highest, place, proved)] of the numbers that have not arrived, as in views.missing()."""
        return [tuple(row.values()) for row in self._database.rows("SELECT epoch, lo, hi, place, proved FROM missing")]

    def expires(self):
        """The longest expiry with which a message of the device arrived, in s; None without any."""
        return self._database.row("SELECT max(expires) AS expires FROM expiries")["expires"]

    def counted(self):
        """{reason: how many numbers the device gave up for it}, by its counters."""
        found = self._database.rows(f"SELECT {', '.join(COUNTED)} FROM health_sums")
        return {name: (found[0][name] if found else 0) or 0 for name in COUNTED}

# What a device knows about updates, in two small files that are written in turn: a power cut damages the newer one at
# most. docs/updates.md has the table of states.
#
# Never updated: launch.py reads the files, from a copy of this module that no update replaces. So the format stays.

import struct
from binascii import crc32

IDLE = 0
FETCH = 1  # a release is being fetched into the other slot
TRIAL = 2  # it is there, verified; it starts, and has to prove itself
# The outcome of a trial that has not been published yet.
GOOD = 1
BAD = 2
STARTS = 3  # of a trial; a start that a power cut ended does not count
_ALL_STARTS = 20  # unless there are so many
_FORM = "<3sBBBBBHIIIIII"
_MAGIC = b"IFU"
_VERSION = 1
_NAMES = ("", "a", "b")  # the application that a cable brought, or that is frozen; the slots


class Record:
    """The state, and its transitions; no I/O. slot: that of the good application; release: its number, 0 if it is not
    from an update; candidate: number of the release that is fetched or tried; failed: the highest that did not prove
    itself; left, starts: of the trial; outcome; good_s: for how long the candidate has to run. firmware: the
    candidate is firmware, for the partition of this subtype; 0: it is an application, for a slot."""

    def __init__(self):
        self.n = 0
        self.state = IDLE
        self.slot = self.left = self.starts = self.outcome = self.good_s = 0
        self.release = self.candidate = self.failed = self.firmware = 0

    @property
    def current(self):
        """The folder of the good application, "" for the one that is not in a slot."""
        return _NAMES[self.slot]

    @property
    def other(self):
        """The folder of the slot for the candidate."""
        return _NAMES[self._other()]

    def _other(self):
        return 1 if self.slot != 1 else 2

    def fetch(self, release, good_s, firmware=0):
        """The other slot is blank, for this release; or the beginning of the partition `firmware` is."""
        self.state = FETCH
        self.candidate = release
        self.good_s = good_s
        self.firmware = firmware

    def begin_trial(self):
        """The candidate is in its slot; the next start is its first."""
        self.state = TRIAL
        self.left = STARTS
        self.starts = 0

    @property
    def is_tried(self):
        """True if the candidate is to start. Firmware is, until the bootloader knows that it is good, too."""
        return self.state == TRIAL or (self.firmware > 0 and self.outcome == GOOD)

    def start(self, was_cut):
        """A start during the trial; was_cut: a power cut ended the one before. Returns the folder that starts."""
        if was_cut and self.starts and self.left < STARTS:
            self.left += 1
        if not self.left or self.starts >= _ALL_STARTS:
            self.bad()
            return self.current
        self.left -= 1
        self.starts += 1
        return self.current if self.firmware else self.other

    def bad(self):
        """The candidate has failed."""
        self.state = IDLE
        if self.release == self.candidate:  # firmware that was good, and starts no more
            self.release = 0
        self.outcome = BAD
        self.failed = max(self.failed, self.candidate)

    def good(self):
        """The candidate has proved itself."""
        self.state = IDLE
        self.outcome = GOOD
        if not self.firmware:
            self.slot = self._other()
        self.release = self.candidate

    def pack(self):
        body = struct.pack(
            _FORM,
            _MAGIC,
            _VERSION,
            self.state,
            self.slot,
            self.left,
            self.outcome,
            self.good_s,
            self.n,
            self.release,
            self.candidate,
            self.failed,
            self.firmware,
            self.starts,
        )
        return body + struct.pack("<I", crc32(body))


def unpack(data):
    """The Record in bytes; None if they are damaged."""
    size = struct.calcsize(_FORM)
    if len(data) != size + 4 or struct.unpack("<I", data[size:])[0] != crc32(data[:size]):
        return None
    record = Record()
    magic, version, record.state, record.slot, record.left, record.outcome, record.good_s, *rest = struct.unpack(
        _FORM, data[:size]
    )
    record.n, record.release, record.candidate, record.failed, record.firmware, record.starts = rest
    return record if magic == _MAGIC and version == _VERSION else None


def _path(folder, n):
    return "%s/update.%d" % (folder, n & 1)


def load(folder):
    """The newest Record in `folder`, a new one if there is none."""
    newest = Record()
    for n in (0, 1):
        try:
            with open(_path(folder, n), "rb") as f:
                record = unpack(f.read())
        except OSError:
            continue
        if record and record.n > newest.n:
            newest = record
    return newest


def store(folder, record):
    """Makes the record durable, in place of the one before the last. Raises OSError; then the last one is in force."""
    path = _path(folder, record.n)
    record.n += 1
    try:
        with open(path, "wb") as f:
            f.write(record.pack())
            f.flush()
    except OSError:
        record.n -= 1
        raise

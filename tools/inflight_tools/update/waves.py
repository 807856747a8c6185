"""The course of a rollout: waves of devices, what became of each, when to stop. No I/O."""

import math
from collections import Counter

WAITING, FETCH, TRIAL, GOOD, BAD, REFUSED, EXPIRED = "waiting", "fetch", "trial", "good", "bad", "refused", "expired"
DISTURBED = "disturbed"  # no outcome in time, since somebody without the key disturbed it: no failure
_FAILED = (BAD, REFUSED, EXPIRED)
_ENDS = (GOOD, DISTURBED, *_FAILED)
OFFLINE = "offline"  # what the status of a device says
_STEP = 25  # percent of a fetch between two reports of it
_SHOWN = 6  # devices in a line


def waves(devices, canary, percent):
    """`devices` in waves: the first `canary` of them, then `percent` of all at a time."""
    size = max(math.ceil(len(devices) * percent / 100), 1)
    rest = devices[canary:]
    found = [devices[:canary], *(rest[i : i + size] for i in range(0, len(rest), size))]
    return [wave for wave in found if wave]


def is_other(fields, digest):
    """True if the message about a release has another digest. Earlier versions of Inflight send none."""
    return bool(digest and fields.get("sha256")) and fields["sha256"] != digest


def other(number, state):
    """Why a device has no outcome of this release."""
    how = "runs" if state == GOOD else "has failed"
    return f"another release {number} {how} there: give this one a higher number"


class Course:
    """Of release `number` with that digest, through `planned` (a list of waves, lists of devices). It stops when
    `stop_at` percent of the devices that have begun have failed. patience_s: after that time a device has failed,
    too."""

    def __init__(self, number, planned, stop_at, patience_s, digest=None):
        self.number = number
        self.digest = digest  # None: any
        self.waves = planned
        self.wave = 0  # waves that have begun
        self.states = {}  # {device: state}, of those that have begun
        self.reasons = {}  # {device: reason}, of those that have failed, or whose release was announced again
        self.percent = {}  # {device: how much of the release it has}, of those that fetch and have told
        self.stopped = False
        self._stop_at, self._patience_s = stop_at, patience_s
        self._since = {}

    def next_wave(self, now):
        """Begins the next wave. Returns its devices; nothing while one is running, and at the end."""
        if self.stopped or self.running or self.wave == len(self.waves):
            return []
        begun = self.waves[self.wave]
        self.wave += 1
        self.states |= dict.fromkeys(begun, WAITING)
        self._since |= dict.fromkeys(begun, now)
        return begun

    @property
    def running(self):
        """Devices without an outcome yet."""
        return [device for device, state in self.states.items() if state not in _ENDS]

    @property
    def failed(self):
        return [device for device, state in self.states.items() if state in _FAILED]

    @property
    def ended(self):
        """True if there is nothing to wait for."""
        return self.stopped or (not self.running and self.wave == len(self.waves))

    def message(self, device, fields):
        """A device's message about a release. Returns True if its state has changed."""
        state = fields.get("state")
        if fields.get("release") != self.number or device not in self.running or state not in (FETCH, TRIAL, *_ENDS):
            return False
        if is_other(fields, self.digest):  # one that is refused or fetched may be for other boards: anybody can send it
            return state in (GOOD, BAD) and self._set(device, REFUSED, other(self.number, state))
        return self._set(device, state, str(fields.get("reason", "")))

    def fetched(self, device, share):
        """A device asks for what is behind this share of the release. Returns True if it begins or has another
        quarter."""
        if self.states.get(device) not in (WAITING, FETCH):
            return False
        begins = self._set(device, FETCH, "")
        before, now = self.percent.get(device, 0), int(share * 100)
        self.percent[device] = now
        return begins or now // _STEP > before // _STEP

    def add(self, device):
        """Another one, behind the others."""
        self.waves.append([device])

    def delay(self, device, why):
        """Its release was announced again. If its time passes, that is the reason."""
        if device in self.running:
            self.reasons[device] = why

    def expire(self, now):
        """Returns the devices whose time has passed."""
        late = [device for device in self.running if now - self._since[device] >= self._patience_s]
        for device in late:
            why = self.reasons.get(device)
            state, more = (DISTURBED, f"; {why}") if why else (EXPIRED, "")
            self._set(device, state, f"no outcome in time{more}")
        return late

    def _set(self, device, state, reason):
        if self.states[device] == state:
            return False
        self.states[device] = state
        self.reasons.pop(device, None)
        self.percent.pop(device, None)
        if reason and state in _ENDS:
            self.reasons[device] = reason
        if state in _FAILED:
            self.stopped = 100 * len(self.failed) >= self._stop_at * len(self.states)
        return True

    def summary(self, offline=()):
        """The present wave in words: how many are in which state, and those that are on their way, as far as they fit
        a line; `offline`: devices that are marked so."""
        counts = Counter(self.states.values())
        found = ", ".join(f"{count} {state}" for state, count in sorted(counts.items()))
        shown = list(filter(None, (self._progress(device, device in offline) for device in self.running)))
        left = len(shown) - _SHOWN
        more = f"; {', '.join(shown[:_SHOWN])}{f' and {left} more' if left > 0 else ''}" if shown else ""
        return f"wave {self.wave} of {len(self.waves)}: {found}{more}"

    def _progress(self, device, is_offline):
        words = [f"{self.percent[device]} %"] if device in self.percent else []
        words += [OFFLINE] if is_offline else []
        return f"{device} {' '.join(words)}" if words else ""

"""Results for each kind of network, as a table and as a list of problems."""

from dataclasses import dataclass

from tools.shown import table


@dataclass
class Row:
    """The devices of one kind of network."""

    devices: int = 0
    connections: int = 0
    faults: int = 0  # connections with a fault
    accepted: int = 0
    lost: int = 0
    repeated: int = 0  # QoS 1: allowed
    twice: int = 0  # QoS 2: never
    stuck: int = 0
    given_up: int = 0  # discarded with a clean session
    dropped: int = 0  # by full journals, as the devices count them
    miscounted: int = 0  # counted as dropped but delivered

    def add(self, device, tally):
        """Counts a device, and the messages received from it."""
        self.devices += 1
        self.accepted += device.accepted
        self.stuck += not device.settled
        if device.qos == 2:
            self.twice += tally.repeated
        else:
            self.repeated += tally.repeated
        missing = tally.missing(device.accepted)
        for number in device.excused:
            tally.add(number)
        lost = tally.missing(device.accepted)
        self.given_up += missing - lost
        if device.when_full:
            self.dropped += device.dropped
            self.miscounted += max(0, device.dropped - lost)
            lost = max(0, lost - device.dropped)
        self.lost += lost

    def problems(self, kind):
        words = {
            "lost": "messages lost",
            "twice": "messages of QoS 2 came twice",
            "stuck": "devices stuck",
            "miscounted": "messages counted as dropped arrived",
        }
        return [f"{kind}: {n} {what}" for name, what in words.items() if (n := getattr(self, name))]


_COLUMNS = "devices connections faults accepted lost repeated twice given_up dropped stuck".split()
_HEADS = {"faults": "with fault", "repeated": "QoS 1 repeated", "twice": "QoS 2 twice", "given_up": "given up"}


def table_of(title, rows):
    """rows: {kind: Row}."""
    lines = [(kind, *(getattr(row, name) for name in _COLUMNS)) for kind, row in rows.items()]
    sums = [sum(column) for column in zip(*(counts for _, *counts in lines), strict=True)]
    return table(title, [("network", *(_HEADS.get(name, name) for name in _COLUMNS)), *lines, ("all", *sums)])

# Readings that are gathered while there is no connection: several in one message, names and units once.
#
# Each reading is in flash before the next one: it is published in a message together with those of the batch before it,
# and then the message without it is discarded. A power cut between the two leaves both, and whoever reads them finds
# readings twice, under the same number: the first row has the number `seq`, each one the next. They are the numbers of
# the messages that were replaced; the message's own one is that of its last row.

import json

import telemetry
from inflight.compat import const
from inflight.counters import DROPPED
from inflight.journal.journal import OUT

_FRAME = const(18)  # as in node
_HEAD = '{"bt":%s,"seq":%d,"epoch":%d,"n":[%s],"u":[%s],"rows":['
_START = b'{"bt":'
_END = const(2)  # bytes behind the rows


class Batch:
    """The newest message of `app`, which goes to `topic`, while it can not have been sent."""

    def __init__(self, app, topic):
        self._app = app
        self._frame = len(topic) + _FRAME
        self._mid = self._rows = 0

    def load(self):
        """Goes on with the newest message of the journal, if readings are gathered in it."""
        journal = self._app.journal
        at = journal.find(OUT, journal.next_seq - 1)
        if at < 0:
            return
        packet = self._app.packet(at)
        self._payload = packet[packet.find(_START) :]
        try:
            body = json.loads(self._payload)
            self._columns = list(zip(body["n"], body["u"]))
            self._seq = body["seq"]
            self._rows = journal.next_seq - self._seq
            self._dated = "up" not in body
            # `bt` or `up` as text, which telemetry.seconds() has made: a float of 32 bits cannot hold it.
            head = self._payload[: self._payload.find(b',"seq"')].decode()
            whole, _, part = head[head.rfind(":") + 1 :].partition(".")
            self._began = int(whole) * 100 + int((part + "00")[:2])
        except (ValueError, TypeError, KeyError):
            self._rows = 0  # it is another message
        self._mid = journal.found_mid

    def payload(self, readings):
        """Returns the message with these readings, (name, unit, value) of one moment, and with those before them if
        they go together; None if there are none."""
        values = {}
        for name, unit, value in readings:
            values[name, unit] = value
        if not values:
            return None
        app = self._app
        now, base = app.moment()
        seq = app.journal.next_seq
        if self._takes(values, seq) and now >= self._began:
            longer = self._payload[:-_END] + (",%s]}" % self._row(values, now)).encode()
            if self._fits(len(longer) + self._frame):
                self._longer = longer
                return longer
        self._rows = self._mid = 0
        self._columns = list(values)
        self._seq = seq
        self._began = now
        self._dated = app.synchronised
        names = ",".join([json.dumps(name) for name, _ in self._columns])
        units = ",".join([json.dumps(unit) for _, unit in self._columns])
        head = _HEAD % (base, seq, app.journal.epoch, names, units)
        self._longer = ("%s%s]}" % (head, self._row(values, now))).encode()
        return self._longer

    def _takes(self, values, seq):
        if not 0 < self._rows < self._app.config.batch or seq != self._seq + self._rows:
            return False
        return self._dated == self._app.synchronised and all(column in self._columns for column in values)

    def _fits(self, size):
        # In the space that there is. A longer message than an eighth of a sector takes twice its length.
        journal = self._app.journal
        return journal.cost(size) < 2 * size and journal.fits(OUT, size)

    def _row(self, values, now):
        row = [telemetry.seconds(now - self._began)]
        for column in self._columns:
            row.append(telemetry.literal(values[column]) if column in values else "null")
        return "[%s]" % ",".join(row)

    def published(self, mid):
        """The message of payload() was accepted, with this Message ID: it takes the place of the one before."""
        old = self._mid
        self._mid = mid
        self._payload = self._longer
        self._rows += 1
        if old and self._app.client.discard(old, self._seq + self._rows - 2):
            self._app.client.session.count[DROPPED] -= 1  # none of its readings was

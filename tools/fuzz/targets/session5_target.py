"""A session of level 5 with a journal against a broker that sends anything: as session_target. A message may end
otherwise only if the broker refused it, and then the application is told.

data: a byte (window, inbound), then steps: below 0x80 so many bytes from the broker, others as step() tells."""

from inflight.counters import REJECTED
from inflight.level5.mqtt5 import Session5
from journal_reader import OUT, Image
from journal_reader import RELEASED as STATE_RELEASED
from outcome import Reader, demand
from session_target import Simulation, play, settings
from tools.reference.kinds import PUBACK, PUBREC
from tools.reference.oracle import PERHAPS, RELEASED
from tools.reference.wire import connack

_QUOTAS = (0x93, 0x97)


class Simulation5(Simulation):
    session_class = Session5
    most_inbound = 4

    def start(self):
        super().start()
        self.counted = 0

    def connack(self, present):
        return connack(present and not self.session.clean_start, 0, b"\0")

    def resume_session(self):
        none = not self.session.present
        if none:
            self.handed.clear()
        self.out.connack_read(none, self.window, 5)
        self.out.handled()
        self.reconcile()
        if self.session.maximum_qos < 2:
            self.lost()  # what is lowered is completed otherwise
            return
        self.session.resume()
        self.flush()

    def received(self, kind):
        d = self.session
        if kind in (PUBACK, PUBREC) and d.reason_code >= 0x80:
            self.number.note(kind, d.mid, d.reason_code)
            self.refused(kind, d.mid, d.reason_code)
            return
        super().received(kind)

    def refused(self, kind, mid, code):
        e = self.out.owner(mid)
        if not e or e.number not in self.out.sent or e.phase == RELEASED or (kind == PUBACK) != (e.qos == 1):
            return
        if code in _QUOTAS:  # it goes out once more, as a new one
            self.out._set(e, tried=PERHAPS)
            self.out.order = ()
            self.out.sent = tuple([number for number in self.out.sent if number != e.number])
            return
        self.reconcile()

    def ended(self, error):
        self.reconcile()

    def reconcile(self):
        """Messages that the broker refused are gone, and no others."""
        count = self.session.count
        now = count[REJECTED]
        if now == self.counted:
            return
        may = now - self.counted
        self.counted = now
        self.journal.commit()
        there = {r.seq: r for r in Image(self.shape, bytes(self.flash.data)).records if r.kind == OUT}
        for e in list(self.out.open.values()):
            record = there.get(self.wires[e.number][0])
            if not record or (record.state == STATE_RELEASED and e.phase != RELEASED):
                demand(may, "message %d is gone, and was not refused", e.number)
                may -= 1
                del self.out.open[e.number]


def run(data):
    reader = Reader(data)
    return play(Simulation5(5, *settings(reader.byte())), reader)

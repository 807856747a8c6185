"""Mounting a journal from any flash: it ends without exception, finds every record that FORMAT.md defines, and then
works.

data: a byte (the shape of the device), the number of steps in the journal's history, these steps, then damages."""

from account import body, records
from inflight.journal.journal import DONE, IN, OUT, RELEASED, SESSION, OutboxFull
from inflight.packet import PUBACK, PUBCOMP
from inflight.session.session import Session
from inflight.states import REL, STATE
from journal_reader import OVERHEAD, Image
from outcome import Outcome, Reader, demand
from worn_flash import History, blank, damage, mount


def scanned(journal):
    """The records that the journal finds, in the form of Record.key."""
    found = records(journal, (OUT, IN, SESSION))  # that some are set aside, the image does not tell
    return sorted([(kind, mid, seq, state & RELEASED, data) for kind, mid, seq, state, data, _ in found])


def keys(image):
    return sorted([record.key for record in image.records])


def _judge(journal, image, wanted, least):
    found, left = scanned(journal), keys(image)
    demand(found == wanted, "it finds %r, there is %r", found, wanted)
    demand(left == wanted, "it left %r of %r", left, wanted)
    demand(journal.next_seq >= least, "number %d comes again, %d is next", journal.next_seq, least)
    live = len([1 for record in wanted if record[0] == OUT])
    demand(journal.live == live, "%d messages live, counted as %d", live, journal.live)


def _append(journal, flash, wanted, k, n):
    seq = journal.next_seq
    try:
        at = journal.append(OUT, k, body(k, n), n)
    except OSError:  # a page with a flipped bit did not take it, and is passed by
        demand(flash.flipped, "nothing has flipped")
        journal.recover()
        return
    demand(at >= 0 and journal.next_seq == seq + 1, "number %d, then %d", seq, journal.next_seq)
    wanted.append((OUT, k, seq, 0, body(k, n)))


def _use(journal, flash, wanted, sizes):
    # Appends while there is space, and completes the oldest record.
    for k, n in enumerate(sizes):
        n = min(n, journal.largest)
        try:
            _append(journal, flash, wanted, 100 + k, n)
        except OutboxFull:
            used = journal.used + 2 * (OVERHEAD + n)
            full = used > journal.limit or not journal._erased  # damage may use space until messages are done
            demand(full, "no space for %d of %d", used, journal.limit)
        at = journal.find(OUT, 0)
        if at >= 0 and k & 1:
            record = (OUT, journal.found_mid, journal.found_seq, journal.found_state & RELEASED)
            journal.mark(at, DONE)
            wanted.remove(next(w for w in wanted if w[:4] == record))


class _Window(Session):
    """The rows of a session, whatever client id the journal serves."""

    def __init__(self, journal):
        self.use(bytearray(64), journal)
        self.limit = 2
        self.recorded_most = self.below = 0
        self.record_at = self.record_copy = -1
        self.load_window()
        journal.owner = self


def _send(journal, flash):
    # Finds pending messages by sequence number and completes them, like the session.
    session = _Window(journal)
    for _ in range(journal.live + 1):
        i = session.next_row()
        if i < 0:
            break
        released = session.states[i] & STATE == REL
        session.states[i] += 1  # it was sent: COMP or ACK
        session.acknowledged(PUBCOMP if released else PUBACK, session.mids[i])
    demand(not journal.live and not session.queued, "%d messages were never sent", journal.live)
    if journal.fits(OUT, 0) and journal._erased:  # otherwise damage has left no space
        _append(journal, flash, [], 1, 0)


def run(data):
    reader = Reader(data)
    flash, shape = blank(reader.byte())
    history = History(flash, reader)
    history.live(reader.byte() & 63)
    flash.power_on()
    damage(flash, shape, reader, history.stale)
    before = bytes(flash.data)
    image = Image(shape, before)
    outcome = Outcome()
    if image.foreign:
        return _refused(flash, before)
    wanted = keys(image)
    journal = mount(flash)
    if image.forged or len(set(wanted)) < len(wanted):
        # A later vote may go to a forged header. And where old content came back beside its copy, what is behind it
        # decides whether that is a record or two.
        demand(set(scanned(journal)) == set(wanted), "it finds %r, there is %r", scanned(journal), wanted)
        return outcome.number
    _judge(journal, Image(shape, bytes(flash.data)), wanted, image.next_seq)
    outcome.note(journal.next_seq, journal.live, journal.used, journal.damaged, journal.erases, flash.data)
    flash.most *= 8
    _use(journal, flash, wanted, (40, 0, 200, 17, 90, 90, 90, 90, 90))
    wanted.sort()
    again = mount(flash)
    _judge(again, Image(shape, bytes(flash.data)), wanted, journal.next_seq)
    demand(again.epoch == journal.epoch, "another epoch")
    outcome.note(again.next_seq, again.used, again.damaged, flash.data)
    _send(again, flash)
    return outcome.number


def _refused(flash, before):
    try:
        mount(flash)
    except ValueError:
        demand(bytes(flash.data) == before, "a journal of another geometry was touched")
        return 1
    demand(False, "a journal of another geometry was taken for ours")

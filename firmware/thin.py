# A full journal is thinned: every second message of readings goes, from the oldest on, up to the middle of the numbers
# that wait; then again from the oldest on. So the newer half stays whole, and the oldest hours are the thinnest.
#
# A message has the readings of one moment, or those that were gathered; only messages that can not have been sent go,
# and the newest one never, in which readings are gathered. A file has the journal's epoch, the number where this goes
# on, and how many readings went since the journal was made. It is written before a message goes: if the power is cut
# between, these readings count, and stay.

from files import beside, kept, write
from inflight.counters import DROPPED
from inflight.journal.journal import OUT


def load(app):
    """(number where to go on, readings that went since the journal was made). Raises OSError."""
    try:
        epoch, seq, count = [int(word) for word in kept(beside(app.board, "thinned")).split()]
        if epoch == app.journal.epoch:
            return seq, count
    except ValueError:
        pass
    return 0, 0


def discard(app, size):
    """Discards messages until one of `size` bytes fits, if that many may go. Raises OSError if the journal fails."""
    journal = app.journal
    try:
        seq, count = load(app)
    except OSError:  # nothing goes uncounted
        return
    while not journal.fits(OUT, size):
        found = _second(app, seq, True) or _second(app, 0, True) or _second(app, 0, False)
        if not found:
            return
        mid, seq, readings = found
        count += readings
        try:
            write(beside(app.board, "thinned"), "%d %d %d" % (journal.epoch, seq + 1, count))
        except OSError:  # the file system is full
            return
        if app.client.discard(mid, seq):
            app.client.session.count[DROPPED] -= 1  # it is counted here


def _second(app, seq, older):
    # (Message ID, number, readings) of the second message of readings from this number on; None without one. older: of
    # the older half alone.
    journal = app.journal
    session = app.client.session
    first = max(session.seq, session.sent_below)
    if journal.find(OUT, first) < 0:
        return None
    end = (journal.found_seq + journal.next_seq) // 2 if older else journal.next_seq - 1
    kept = False
    at = journal.find(OUT, max(seq, first))
    while at >= 0 and journal.found_seq < end:
        mid, seq = journal.found_mid, journal.found_seq
        readings = _readings(app, at)
        if readings and kept:
            return mid, seq, readings
        kept = kept or readings > 0
        at = journal.find(OUT, seq + 1)
    return None


def _readings(app, at):
    # How many the record has that was just found, 0: it is another message, or dates readings. The number of a message
    # is that of its last reading, `seq` that of its first one.
    journal = app.journal
    seq = journal.found_seq
    packet = app.packet(at)
    place = packet.find(b'"seq":')
    if app.telemetry_topic.encode() not in packet[:place] or b'"boot":' in packet:
        return 0
    return seq - int(packet[place + 6 : packet.find(b",", place)]) + 1

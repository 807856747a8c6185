# CONNECT and CONNACK: how a connection begins. Loaded for each of them.

from errno import EACCES

import inflight.counters as counters

from .base import OPEN, POLL, REQUEST
from .compat import const, ticks_ms, unload
from .packet import ProtocolError
from .session_record import CLEAN, ENDING, PERSISTENT

OTHER_SESSION = const(-1)  # Session.code at level 5: the broker's session is one that the client does not know


def steps(client):
    """Connecting as a sequence of steps, which each client takes in its own way. Every step but POLL gives the next
    polls a new time-out."""
    session = client.session
    yield from _open(client)
    session.resume()
    for h in client._handlers[:]:
        if not h[4]:
            yield from _subscribe(client, h)
    client._connected_at = ticks_ms()
    client._connect_reported = True
    if client.on_connect:
        client._report(client.on_connect, session.present)


def _subscribe(client, handler):
    from .subscribing import check

    session = client.session
    filters = [handler[0]]
    try:
        check(session, filters)
    except ValueError as e:
        client._report(client.on_error, e)
        return
    session.subscribe(filters, [handler[1]])
    yield REQUEST
    while session.request is not None:
        yield POLL
    code = session.granted[0]
    handler[4] = code < 0x80
    if not handler[4]:
        error = OSError(EACCES, "subscription refused: %s, code %d" % (handler[0].decode(), code))
        client._report(client.on_error, error)


def _open(client):
    session = client.session
    if client._tls:
        from .opening import check_tls

        check_tls(client._tls)
    silent = client._no_connack
    yield from _call(client)
    while session.code == OTHER_SESSION:
        from .other_session5 import leave

        yield from leave(client)
        unload("other_session5")
        yield from _call(client)
    client._no_connack = silent and session.code > 0
    if session.code:
        from .refused import ConnectRefused, slow_down

        slow_down(client, session.code)
        raise ConnectRefused(session.code, getattr(session, "reason", ""))
    for mid in session.ended:
        client._report_complete(mid)
    session.ended = ()
    if silent or not session.present:
        # The broker has forgotten what it was asked for, or it may have said so in a CONNACK that never came.
        for h in client._handlers:
            h[4] = False


def _call(client):
    # A connection, CONNECT and CONNACK.
    session = client.session
    yield OPEN
    if client._http_request:
        from .upgrade import steps as upgrade

        yield from upgrade(client)
    session.connect(ticks_ms(), client._clean_session, client._keepalive, *client._login, will=client._will)
    client._no_connack = True
    while not (session.connected or session.code):
        yield POLL


def connect(session, now, clean_session, keepalive, user, password, will):
    """Session.connect()."""
    from .connect_packet import write

    session.out.send(write(session, clean_session, keepalive, user, password, will))
    unload("connect_packet")
    session.clean = clean_session
    session.code = 0
    session.keep_alive.begin(now)
    record = session.record
    if clean_session and record.has_session and record.mode == PERSISTENT:
        record.mode = ENDING
        session.write_record()


def connack(session):
    """CONNACK arrived. Raises ProtocolError, OSError if flash fails."""
    d = session.decoder
    # At level 3 byte 1 is reserved: the client goes on as if the broker knew the session.
    present = d.buf[d.at] if d.protocol_level > 3 else 0
    session.code = d.buf[d.at + 1]
    if present > 1 or session.code > 5 or (present and (session.code or session.clean)):
        raise ProtocolError("CONNACK %d %d" % (present, session.code))
    session.present = present == 1
    if session.code:
        session.count[counters.REFUSED] += 1
        return
    accepted(session, not present and d.protocol_level > 3, _lose)


def resume(session):
    """Session.resume()."""
    if session.journal:
        if session.record.stale:
            session.write_record()
        session.journal.commit()
    session.outbound.retransmit()
    session._resumed = True


def _lose(session):
    """The broker has lost the session."""
    from .discarding import session_lost

    return session_lost(session.outbound)


def accepted(session, none, lose):
    """CONNACK says that the connection stands. none: the broker says that it has no session of ours; lose(session) is
    called if we have one, and returns the Message IDs of the messages that are completed by that."""
    session.connected = True
    session.count[counters.CONNECTS] += 1
    record = session.record
    mode = record.mode
    new = session.clean or none or mode == CLEAN
    if new and session.inbound:
        session.inbound.session_lost()
    if mode == CLEAN or (mode == ENDING and new):
        from .discarding import discard

        session.count[counters.DROPPED] += discard(session.outbound)
    elif none and not session.clean:
        session.ended = lose(session)
        session.count[counters.COMPLETED] += len(session.ended)
    if new:
        session.foreign = None
        record.stale = record.stale or record.unproven > 0
        record.unproven = 0
    elif session.journal and not record.has_session:
        from .foreign import oldest_mid, suspect

        suspect(session, oldest_mid(session.outbound))
    record.mode = PERSISTENT
    if session.clean:
        record.mode = CLEAN
        # What left earlier belongs to sessions that have ended: from now on no more than the window can leave.
        session._most = session._max_inflight
    if record.mode != mode or not record.has_session:
        record.stale = True

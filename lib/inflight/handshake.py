# CONNECT and CONNACK: how a connection begins. Loaded for each of them.

from errno import EACCES

import inflight.counters as counters

from .base import OPEN, POLL, REQUEST
from .compat import ticks_ms
from .packet import ProtocolError, begin, check_size, put_string
from .session_record import CLEAN, ENDING, PERSISTENT


def steps(client):
    """Connecting as a sequence of steps, which each client takes in its own way. Every step but POLL gives the next
    polls a new time-out."""
    session = client.session
    yield from _open(client)
    session.resume()
    for h in client._handlers[:]:
        if not h[4]:
            session.subscribe([h[0]], [h[1]])
            yield REQUEST
            while session.requesting:
                yield POLL
            h[4] = session.granted[0] != 0x80
            if not h[4]:
                client._report(client.on_error, OSError(EACCES, "subscription refused: %s" % h[0].decode()))
    client._connected_at = ticks_ms()
    client._connect_reported = True
    if client.on_connect:
        client._report(client.on_connect, session.present)


def _open(client):
    session = client.session
    check_tls(client._tls)
    yield OPEN
    if client._http_request:
        from .upgrade import steps as upgrade

        yield from upgrade(client)
    session.connect(ticks_ms(), client._clean_session, client._keepalive, *client._login, will=client._will)
    silent = client._no_connack
    client._no_connack = True
    while not (session.connected or session.code):
        yield POLL
    client._no_connack = silent and session.code > 0
    if session.code:
        from .refused import ConnectRefused

        raise ConnectRefused(session.code)
    for mid in session.ended:
        client._report_complete(mid)
    session.ended = ()
    if silent or not session.present:
        # The broker has forgotten what it was asked for, or it may have said so in a CONNACK that never came.
        for h in client._handlers:
            h[4] = False


def check_tls(tls):
    # At each connection: somebody may have changed it since. 2 is CERT_REQUIRED; a MicroPython with CERT_OPTIONAL
    # takes any certificate. CPython looks at the host name only if it is told to, MicroPython always does.
    if tls and (getattr(tls, "verify_mode", 0) != 2 or not getattr(tls, "check_hostname", True)):
        raise ValueError("tls does not verify: set verify_mode = CERT_REQUIRED, check_hostname, and load a CA")


def connect(session, now, clean_session, keepalive, user, password, will):
    """Session.connect()."""
    out = session.out
    out.send(
        connect_packet(
            out.buf, session.decoder.protocol_level, session.client_id, clean_session, keepalive, user, password, will
        )
    )
    session.clean = clean_session
    session.code = 0
    session.keep_alive.begin(now)
    if clean_session and session.has_session and session.record.mode == PERSISTENT:
        session.record.mode = ENDING
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
    session.connected = True
    session.count[counters.CONNECTS] += 1
    _start(session, not present and d.protocol_level > 3)


def _start(session, none):
    # `none`: the broker says that it has none of ours.
    record = session.record
    mode = record.mode
    new = session.clean or none or mode == CLEAN
    if new and session.inbound:
        session.inbound.session_lost()
    if mode == CLEAN or (mode == ENDING and new):
        from .discarding import discard

        session.count[counters.DROPPED] += discard(session.outbound)
    elif none and not session.clean:
        from .discarding import session_lost

        session.ended = session_lost(session.outbound)
        session.count[counters.COMPLETED] += len(session.ended)
    if new:
        session.foreign = None
        record.stale = record.stale or record.unproven > 0
        record.unproven = 0
    elif session.journal and not session.has_session:
        from .foreign import oldest_mid, suspect

        suspect(session, oldest_mid(session.outbound))
    record.mode = PERSISTENT
    if session.clean:
        record.mode = CLEAN
        session.sessions_ended()
    if record.mode != mode or not session.has_session:
        record.stale = True


def connect_packet(buf, protocol_level, client_id, clean_session, keepalive, user=None, password=None, will=None):
    """Writes a CONNECT. All strings are bytes; will is (topic, payload, qos, retain) or None.
    Returns its length. [MQTT-3.1]"""
    fields = [client_id]
    flags = 2 if clean_session else 0
    if will:
        fields += will[:2]
        flags |= 4 | will[2] << 3 | (32 if will[3] else 0)
    if user is not None:
        fields.append(user)
        flags |= 0x80
    if password is not None:
        fields.append(password)
        flags |= 0x40
    name = b"MQIsdp" if protocol_level == 3 else b"MQTT"
    remaining = len(name) + 6
    for field in fields:
        remaining += 2 + len(field)
    check_size(buf, remaining)
    i = put_string(buf, begin(buf, 0x10, remaining), name)
    buf[i] = protocol_level
    buf[i + 1] = flags
    buf[i + 2] = keepalive >> 8
    buf[i + 3] = keepalive & 0xFF
    i += 4
    for field in fields:
        i = put_string(buf, i, field)
    return i

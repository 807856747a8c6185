# The packet CONNECT. Loaded for each one, and when a client is made, which shows whether it fits.

from .compat import copy
from .packet import begin, check_size, put_string
from .session_record import ENDING, PERSISTENT


def connect(session, now, clean_session, keepalive, user, password, will):
    """Session.connect()."""
    session.out.send(write(session, clean_session, keepalive, user, password, will))
    session.clean = clean_session
    session.code = 0
    session.keep_alive.begin(now)
    window = session.outbound
    if window.aside or session.ended_by:
        from .suspects import judge

        judge(session, now)
        session.ended_by = None
    record = session.record
    if clean_session and record.has_session and record.mode == PERSISTENT:
        record.mode = ENDING
        session.write_record()


def write(session, clean_session, keepalive, user, password, will):
    """Puts the CONNECT of `session` into its send buffer; connect_packet() tells the arguments. Returns its length.
    Raises ValueError if it does not fit."""
    level = session.decoder.protocol_level
    clean_start, blocks = session.connect_fields(clean_session, will)
    return connect_packet(
        session.out.buf, level, session.client_id, clean_start, keepalive, user, password, will, blocks
    )


def connect_packet(
    buf, protocol_level, client_id, clean_session, keepalive, user=None, password=None, will=None, blocks=(b"", b"")
):
    """Writes a CONNECT. All strings are bytes; will is (topic, payload, qos, retain) or None; blocks: the properties
    of level 5, of the packet and of the will. Returns its length. [MQTT-3.1]"""
    fields = []
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
    remaining = len(name) + 8 + len(client_id) + len(blocks[0]) + len(blocks[1])
    for field in fields:
        remaining += 2 + len(field)
    check_size(buf, remaining)
    i = put_string(buf, begin(buf, 0x10, remaining), name)
    buf[i] = protocol_level
    buf[i + 1] = flags
    buf[i + 2] = keepalive >> 8
    buf[i + 3] = keepalive & 0xFF
    i = copy(buf, i + 4, blocks[0])
    i = copy(buf, put_string(buf, i, client_id), blocks[1])
    for field in fields:
        i = put_string(buf, i, field)
    return i

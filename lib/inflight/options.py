# The arguments of a client: checked, encoded and kept. Loaded when a client is made.

from .compat import print_exception, ticks_ms
from .handshake import check_tls, connect_packet
from .session import Session
from .topic import encode, encode_name


def configure(
    client,
    host,
    client_id="",
    journal=None,
    port=0,
    tls=None,
    path=None,
    headers=None,
    user=None,
    password=None,
    will=None,
    keepalive=60,
    clean_session=False,
    protocol_level=4,
    session_expiry=None,
    slept=0,
    auth=None,
    aliases=0,
    stall_ms=None,
    buffer=None,
    max_inflight=8,
    receive_maximum=32,
    when_full=None,
    timeout_ms=10_000,
    retry_ms=None,
    backoff_ms=(1_000, 60_000),
    reconnect=True,
    on_message=None,
    on_connect=None,
    on_disconnect=None,
    on_complete=None,
    on_error=None,
):
    """Base tells the arguments. Raises ValueError."""
    name = encode(client_id)
    if protocol_level not in (3, 4, 5):
        raise ValueError("protocol_level is 3 (MQTT 3.1), 4 (MQTT 3.1.1) or 5 (MQTT 5)")
    if protocol_level == 3 and not 0 < len(name) < 24:
        raise ValueError("level 3: client id of 1 to 23 characters")
    if protocol_level < 5:
        if not name and not clean_session:
            raise ValueError("an empty client id needs clean_session=True")
        if password is not None and user is None:
            raise ValueError("a password needs a user name")
        if session_expiry is not None or auth or aliases or stall_ms is not None:
            raise ValueError("session_expiry, auth, aliases and stall_ms need protocol_level=5")
    if not 0 <= keepalive <= 65535:
        raise ValueError("keepalive is 0 to 65535 seconds")
    if max_inflight < 1 or receive_maximum < 1:
        raise ValueError("max_inflight and receive_maximum are at least 1")
    if when_full not in (None, "oldest", "newest"):
        raise ValueError('when_full is None, "oldest" or "newest"')
    buffer = bytearray(1024) if buffer is None else buffer
    if len(buffer) < 128:
        raise ValueError("buffer of 128 bytes at least")
    client._host = host
    client._port = port or (8883 if tls else 1883)
    client._http_request = None  # with which a WebSocket is asked for
    if path is not None:
        from .upgrade import request

        client._port = port or (443 if tls else 80)
        client._http_request = request(host, client._port, tls, path, headers)
    client._tls = tls
    check_tls(tls)
    client._login = (
        None if user is None else encode(user),
        None if password is None else _encode_data(client, password),
    )
    client._will = _encode_will(client, will, protocol_level)
    client._keepalive = keepalive
    client._clean_session = clean_session
    client._timeout_ms = timeout_ms
    client._backoff_ms = backoff_ms
    client._reconnect = reconnect
    client._on_message = on_message
    client.on_connect = on_connect
    client.on_disconnect = on_disconnect
    client.on_complete = on_complete
    client.on_error = on_error or print_exception
    if retry_ms is None:
        retry_ms = 20_000 if protocol_level == 3 else 0
    # [filter, qos, handler, stream, the broker has been asked for it, the only topic or None, what names match]
    client._handlers = ()
    client._no_connack = False  # the last CONNECT had no answer
    client._topic = None  # the last topic published to; the session has it as bytes
    client._attach = None  # gives the next message its properties, at level 5
    # PINGREQ after three quarters of the keep alive, so that the gap stays below it [MQTT-3.1.2-23].
    interval = keepalive * 750
    settings = (protocol_level, max_inflight, receive_maximum, interval, retry_ms, when_full, timeout_ms)
    if protocol_level == 5:
        from .handshake5 import check, new_session

        check(session_expiry, clean_session, slept, aliases, stall_ms, max_inflight, retry_ms, timeout_ms)
        if stall_ms is None:
            stall_ms = max(60_000, min(4 * timeout_ms, 86_400_000))
        client.session = new_session(session_expiry, clean_session, slept, stall_ms, journal, buffer, name, *settings)
        client._attach = client.session.out.attach
        if aliases:
            from .aliases5 import Aliases

            client.session.aliases = Aliases(aliases)
        if auth:
            auth.attach(client.session)
    else:
        client.session = Session(journal, buffer, name, *settings)
    # Whether CONNECT fits the buffer shows now, not on the way.
    user, password = client._login
    _, blocks = client.session.connect_fields(clean_session, client._will)
    out = client.session.out.buf
    connect_packet(out, protocol_level, name, clean_session, keepalive, user, password, client._will, blocks)
    client._message = None  # what handlers get: see dispatching
    client._in_callback = False  # a handler or callback runs
    client._unfinished = 0  # bytes are on their way, which an interrupt loses: READING, WRITING
    client._connect_reported = False  # on_connect() told of the connection
    client._last_error = None  # the error that ended the last connection, or attempt
    client._attempts = 0
    client._connected_at = None  # since when the connection stands
    client._next_attempt = ticks_ms()  # the time of the next attempt to connect


def _encode_will(client, will, protocol_level):
    if will is None:
        return None
    topic, payload, qos, retain = will[:4]
    properties = will[4] if len(will) > 4 else None
    if qos not in (0, 1, 2):
        raise ValueError("will: qos is 0, 1 or 2")
    if properties and not hasattr(properties, "block"):
        raise ValueError("will: properties are what properties() makes")
    block = properties.block if properties else b"\0"
    return (encode_name(topic, protocol_level), _encode_data(client, payload), qos, retain, block)


def _encode_data(client, data):
    data = client._encode_payload(data)
    if len(data) > 65535:
        raise ValueError("password and will take 65535 bytes at most")
    return data

# The arguments of a client: checked, encoded and kept. Loaded when a client is made.

from .compat import print_exception
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
    connect_properties=None,
    buffer=None,
    max_inflight=8,
    receive_maximum=32,
    when_full=None,
    timeout_ms=10_000,
    retry_ms=None,
    backoff_ms=(1_000, 60_000),
    reconnect=True,
    max_redeliveries=0,
    on_message=None,
    on_connect=None,
    on_disconnect=None,
    on_complete=None,
    on_error=None,
):
    """Base tells the arguments. Returns those of client_start.start(). Raises ValueError."""
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
        if session_expiry is not None or auth or aliases or stall_ms is not None or connect_properties:
            raise ValueError("session_expiry, auth, aliases, stall_ms and connect_properties need protocol_level=5")
    if not 0 <= keepalive <= 65535:
        raise ValueError("keepalive is 0 to 65535 seconds")
    if max_inflight < 1 or receive_maximum < 1:
        raise ValueError("max_inflight and receive_maximum are at least 1")
    if max_redeliveries.__class__ is not int or not 0 <= max_redeliveries <= 65535:
        raise ValueError("max_redeliveries is a whole number, 0 to 65535, not %r" % (max_redeliveries,))
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
    if tls:
        from .opening import check_tls

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
    client._max_redeliveries = max_redeliveries
    client._on_message = on_message
    client.on_connect = on_connect
    client.on_disconnect = on_disconnect
    client.on_complete = on_complete
    client.on_error = on_error or print_exception
    if retry_ms is None:
        retry_ms = 20_000 if protocol_level == 3 else 0
    # PINGREQ after three quarters of the keep alive, so that the gap stays below it [MQTT-3.1.2-23].
    interval = keepalive * 750
    settings = (protocol_level, max_inflight, receive_maximum, interval, retry_ms, when_full, timeout_ms)
    return (session_expiry, slept, auth, aliases, stall_ms, connect_properties), (journal, buffer, name) + settings


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

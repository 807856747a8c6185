# The arguments of a client: checked, encoded and kept.

from ..arguments import encode, encode_name, flag, function, number, refuse, refuse_name
from ..compat import const, print_exception

_LONGEST_MS = const(0x1FFFFFFF)  # less than half a period of the ticks
# Whole numbers: least, most, unit; None in place of a number of the second tuple: its default.
_NUMBERS = (
    ("port", 0, 65535, ""),
    ("keepalive", 0, 65535, " s"),
    ("protocol_level", 3, 5, ": MQTT 3.1, 3.1.1 or 5"),
    ("slept", 0, 0xFFFFFFFF, " s"),
    ("aliases", 0, 65535, ""),
    ("max_inflight", 1, 65535, ""),
    ("receive_maximum", 1, 65535, ""),
    ("max_redeliveries", 0, 65535, ""),
    ("timeout_ms", 1, _LONGEST_MS, ""),
)
_OPTIONAL_NUMBERS = (
    ("session_expiry", 1, 0xFFFFFFFF, " s"),
    ("stall_ms", 0, _LONGEST_MS, ""),
    ("retry_ms", 0, _LONGEST_MS, ""),
)
_FUNCTIONS = ("on_message", "on_connect", "on_disconnect", "on_complete", "on_error")
# What an argument has to have if it is given, and what that is.
_OBJECTS = (
    ("journal", "recover", "a Journal or None"),
    ("tls", "wrap_socket", "an SSLContext or None"),
    ("path", "encode", "a str or None"),
    ("headers", "items", "a dict or None"),
    ("auth", "attach", "an Authentication or None"),
    ("connect_properties", "max_packet", "what connect_properties() makes or None"),
)


class Options:
    """A client, as far as its arguments are concerned."""

    # Of what configure() sets, that which others use.
    _host: str
    _port: int
    _tls: object
    _login: tuple[bytes, bytes]
    _timeout_ms: int
    _reconnect: bool
    _clean_session: bool
    on_message: object
    on_error: object
    _encode_payload: "Any"  # type: ignore[name-defined] # noqa: F821  of Base

    def configure(
        self,
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
        **unknown,
    ):
        """Base tells the arguments. Returns those of _set_up(). Raises ValueError, TypeError if there is no such
        argument; it is as it was then."""
        for name in unknown:
            refuse_name(name)
        values = (port, keepalive, protocol_level, slept, aliases, max_inflight, receive_maximum)
        values += (max_redeliveries, timeout_ms)
        for (name, least, most, unit), value in zip(_NUMBERS, values):
            number(name, value, least, most, unit)
        for (name, least, most, unit), value in zip(_OPTIONAL_NUMBERS, (session_expiry, stall_ms, retry_ms)):
            if value is not None:
                number(name, value, least, most, unit)
        for name, value in zip(_FUNCTIONS, (on_message, on_connect, on_disconnect, on_complete, on_error)):
            function(name, value)
        objects = (journal, tls, path, headers, auth, connect_properties)
        for (name, attribute, allowed), value in zip(_OBJECTS, objects):
            if value is not None and not hasattr(value, attribute):
                refuse(name, allowed, value)
        flag("clean_session", clean_session)
        flag("reconnect", reconnect)
        _check_host(host)
        first, longest = _pair(backoff_ms)
        name = encode(client_id, name="client_id")
        if protocol_level == 3 and not 0 < len(name) < 24:
            refuse("client_id", "a name of 1 to 23 characters at level 3", client_id)
        if protocol_level < 5:
            if not name and not clean_session:
                raise ValueError("an empty client_id needs clean_session=True")
            if password is not None and user is None:
                raise ValueError("a password needs a user name")
            if not (session_expiry is stall_ms is auth is connect_properties is None and aliases == 0):
                raise ValueError("session_expiry, auth, aliases, stall_ms and connect_properties need protocol_level=5")
        if headers is not None and path is None:
            raise ValueError("headers need path: they are for the HTTP request of a WebSocket")
        if when_full not in (None, "oldest", "newest"):
            refuse("when_full", 'None, "oldest" or "newest"', when_full)
        buffer = bytearray(1024) if buffer is None else buffer
        if not isinstance(buffer, bytearray) or len(buffer) < 128:
            refuse("buffer", "a bytearray of at least 128 bytes", buffer)
        login = (
            None if user is None else encode(user, name="user"),
            None if password is None else self._encode_data("password", password),
        )
        will = self._encode_will(will, protocol_level)
        port = port or (443 if path and tls else 80 if path else 8883 if tls else 1883)
        http_request = None  # with which a WebSocket is asked for
        if path is not None:
            from ..net.websocket import upgrade_request

            http_request = upgrade_request(host, port, tls, path, headers)
        if tls:
            from ..net.transport import check_tls

            check_tls(tls)
        self._host = host
        self._port = port
        self._http_request = http_request
        self._tls = tls
        self._login = login
        self._will = will
        self._keepalive = keepalive
        self._clean_session = clean_session
        self._timeout_ms = timeout_ms
        self._backoff_ms = first, longest
        self._reconnect = reconnect
        self._max_redeliveries = max_redeliveries
        self.on_message = on_message
        self.on_connect = on_connect
        self.on_disconnect = on_disconnect
        self.on_complete = on_complete
        self.on_error = on_error or print_exception
        if retry_ms is None:
            retry_ms = 20_000 if protocol_level == 3 else 0
        # PINGREQ after three quarters of the keep alive, so that the gap stays below it [MQTT-3.1.2-23].
        interval = keepalive * 750
        settings = (protocol_level, max_inflight, receive_maximum, interval, retry_ms, when_full, timeout_ms)
        return (session_expiry, slept, auth, aliases, stall_ms, connect_properties), (journal, buffer, name) + settings

    def _encode_will(self, will, protocol_level):
        if will is None:
            return None
        if not isinstance(will, (tuple, list)) or not 4 <= len(will) <= 5:
            refuse("will", "(topic, payload, qos, retain), perhaps with properties", will)
        topic, payload, qos, retain = will[:4]
        properties = will[4] if len(will) > 4 else None
        number("qos of will", qos, 0, 2)
        flag("retain of will", retain)
        if properties is not None and not hasattr(properties, "block"):
            refuse("properties of will", "what properties() makes", properties)
        topic = encode_name(topic, protocol_level, "topic of will")
        return (
            topic,
            self._encode_data("payload of will", payload),
            qos,
            retain,
            properties.block if properties else b"\0",
        )

    def _encode_data(self, name, data):
        if not isinstance(data, (str, bytes, bytearray, memoryview)):
            refuse(name, "str, bytes, bytearray or memoryview", data)
        data = self._encode_payload(data)
        if len(data) > 65535:
            raise ValueError("%s has %d bytes, at most 65535" % (name, len(data)))
        return data


def _check_host(host):
    if not isinstance(host, str) or not host:
        refuse("host", "the name or address of the broker, a str", host)
    for c in host.encode():
        if c <= 32 or c in b"/[]@":
            refuse("host", "a name or an address alone, without scheme, path or brackets", host)
    if host.count(":") == 1:  # an IPv6 address has more
        refuse("host", "a name or an address: write the port as port=", host)


def _pair(backoff_ms):
    if not isinstance(backoff_ms, (tuple, list)) or len(backoff_ms) != 2:
        refuse("backoff_ms", "(first, longest), two numbers of ms", backoff_ms)
    first, longest = backoff_ms
    number("backoff_ms[1]", longest, 0, _LONGEST_MS)
    number("backoff_ms[0]", first, 0, longest)
    return first, longest

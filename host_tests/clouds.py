"""Stand-ins of cloud brokers, on virtual time: complete brokers that behave as the documentation of AWS IoT Core, Azure
Event Grid and Azure IoT Hub says, where that differs from the standard. Nobody has compared them with the services.

Each device has a certificate, and its client id is the name in it. What a service does not allow ends the connection;
`closed` lists why."""

import contextlib
import socket
import ssl
from dataclasses import dataclass

from host_tests.broker import Connection, Gone
from host_tests.virtual import VirtualAutomatic
from tools.peers.certificates import server_context
from tools.reference.kinds import CONNECT, PUBLISH, SUBSCRIBE
from tools.reference.wire import suback

MAXIMUM_QOS, RECEIVE_MAXIMUM, ALIASES, IDENTIFIERS = 0x24, 0x21, 0x22, 0x29  # properties of a CONNACK


@dataclass(frozen=True)
class Rules:
    """The most that it takes: payload in bytes, keep alive in seconds, bytes of a topic, slashes in it, filters in a
    SUBSCRIBE. session: s for which it keeps one without a connection. lowers: for QoS 2 it grants QoS 1, else it does
    not answer; closes_at_qos_2: it ends the connection at a PUBLISH of QoS 2, else it does not answer. repeats: each
    n-th message to a device comes once more, with another Message ID and without DUP, behind the next message. own: a
    device has two topics, and no others. announced: properties of its CONNACK at level 5."""

    payload: int
    keepalive: int
    topic: int = 65535
    slashes: int = 65535
    filters: int = 65535
    session: float = 3600
    lowers: bool = True
    closes_at_qos_2: bool = True
    repeats: int = 0
    own: bool = False
    announced: tuple = ((MAXIMUM_QOS, 1),)


AWS_IOT_CORE = Rules(
    payload=128 * 1024,
    keepalive=1200,
    topic=256,
    slashes=7,
    filters=8,
    lowers=False,
    closes_at_qos_2=False,
    repeats=3,
    announced=((MAXIMUM_QOS, 1), (RECEIVE_MAXIMUM, 100), (ALIASES, 8), (IDENTIFIERS, 0)),
)
EVENT_GRID = Rules(payload=512 * 1024, keepalive=1160, announced=((MAXIMUM_QOS, 1), (ALIASES, 10), (IDENTIFIERS, 0)))
IOT_HUB = Rules(payload=256 * 1024, keepalive=1177, own=True)


def certified(ca, folder, device):
    """Writes a certificate of this device by the authority. Returns the files, {field of the configuration: path}."""
    leaf = ca.issue_cert(f"{device}.example", common_name=device)
    blobs = {"tls_ca": ca.cert_pem, "tls_cert": leaf.cert_chain_pems[0], "tls_key": leaf.private_key_pem}
    for name, blob in blobs.items():
        blob.write_to_path(folder / name)
    return {name: str(folder / name) for name in blobs}


class _Again(Exception):
    """There is nothing more to read now."""


class _Secure(Connection):
    def __init__(self, sock):
        super().__init__(sock)
        sock.settimeout(0)

    def _recv(self, most):
        try:
            return self.sock.recv(most)
        except ssl.SSLWantReadError:
            raise _Again from None

    def fill(self, most=65536):
        with contextlib.suppress(_Again):  # within the handshake
            super().fill(most)

    @property
    def device(self):
        """The name in the certificate of the client."""
        return next(value for ((name, value),) in self.sock.getpeercert()["subject"] if name == "commonName")


class Cloud(VirtualAutomatic):
    """A cloud broker at `localhost` with these rules, whose devices have certificates by the authority `ca`."""

    def __init__(self, clock, ca, rules, **options):
        self.rules = rules
        self.closed = []
        self._tls = server_context(ca, "localhost")
        self._tls.verify_mode = ssl.CERT_REQUIRED
        ca.configure_trust(self._tls)
        self._tls.sni_callback = self._named
        self._named_host = None
        self._heard = self._patience = 0.0
        self._left = {}  # client id: when its connection ended
        self._client_id = None
        self._given = 0
        self._once_more = None
        super().__init__(clock, announced=rules.announced, **options)

    def _named(self, sock, host, context):
        self._named_host = host

    def give(self, topic, payload=b"", qos=0, retain=0):
        super().give(topic, payload, qos, retain)
        if self._once_more:
            super().give(*self._once_more)
            self._once_more = None
        self._given += 1
        if self.rules.repeats and self._given % self.rules.repeats == 0:
            self._once_more = topic, payload, qos, retain

    def cut(self):
        """Ends the connection, if there is one."""
        if self._connection:
            self._connection.reset()
            self._connection = None

    def accept(self):
        sock, _ = self._listener.accept()
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections.append(_Secure(self._tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)))
        self._named_host, self._patience = None, 0
        return self.connections[-1]

    def _serve_ready(self):
        if self._connection and self._patience and self.clock.now - self._heard > self._patience:
            self.closed.append("keep alive")
            self.cut()
        super()._serve_ready()
        if not self._connection and self._client_id:
            self._left[self._client_id] = self.clock.now
            self._client_id = None

    def packet_received(self, p):
        self._heard = self.clock.now
        why = self._forbidden(p)
        if why:
            self.closed.append(why)
            raise Gone(why)
        if p.kind == CONNECT:
            self._client_id = p.client_id
            self._patience = 1.5 * min(p.keepalive or self.rules.keepalive, self.rules.keepalive)
            if self.clock.now - self._left.get(p.client_id, self.clock.now) > self.rules.session:
                self.sessions.pop(p.client_id, None)
        if p.kind == SUBSCRIBE and any(qos & 3 == 2 for _, qos in p.filters):
            if self.rules.lowers:
                lowered = [(name, min(qos, 1)) for name, qos in p.filters]
                self._link.session.subscriptions.update(lowered)
                self.send(suback(p.mid, *(qos for _, qos in lowered)))
            return
        if p.kind == PUBLISH and p.qos == 2:
            return
        super().packet_received(p)

    def _forbidden(self, p):
        rules = self.rules
        if p.kind == CONNECT:
            if self._named_host != "localhost":
                return "no server name in TLS"
            if p.client_id != self._connection.device:
                return "client id"
            topics, payload, qos = ([p.will[0]], p.will[1], p.will[2]) if p.will else ([], b"", 0)
        elif p.kind == PUBLISH:
            topics, payload, qos = [p.topic], p.payload, p.qos
        elif p.kind == SUBSCRIBE:
            topics, payload, qos = [name for name, _ in p.filters], b"", 0
        else:
            return None
        if qos == 2 and rules.closes_at_qos_2:
            return "QoS 2"
        if len(payload) > rules.payload:
            return "payload"
        if any(len(topic.encode()) > rules.topic or topic.count("/") > rules.slashes for topic in topics):
            return "topic"
        if len(topics) > rules.filters:
            return "filters"
        if rules.own and not all(self._is_own(topic, p.kind) for topic in topics):
            return "not a topic of the device"
        return None

    def _is_own(self, topic, kind):
        own = f"devices/{self._connection.device}/messages/"
        return topic == own + "devicebound/#" if kind == SUBSCRIBE else topic.startswith(own + "events/")

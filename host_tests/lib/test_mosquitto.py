"""The blocking client against a mosquitto that asks who it is, and through TLS; host_tests/brokers has all the rest."""

import datetime
import ipaddress
import ssl

import pytest

from fleet.mosquitto import Mosquitto, unavailable
from inflight import Client, ConnectRefused, Journal, RamFlash

REASON = unavailable()
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON or "available")


@pytest.fixture
def serve(tmp_path):
    """serve(*configuration lines) is a running Mosquitto."""
    started = []

    def start(*lines):
        started.append(Mosquitto(tmp_path / f"broker{len(started)}", *lines))
        return started[-1].start()

    yield start
    for broker in started:
        broker.kill()


# --- a session that the journal does not know ---


def test_a_fresh_journal_gets_what_is_queued(serve, make, pump):
    """[MQTT-4.3.3-2] [MQTT-4.4.0-1] The session goes on: what is queued comes, new messages of QoS 2 are not taken for
    those that an earlier journal left half way."""
    port = serve().port
    got, heard = [], []
    lost = make(port)
    lost.subscribe("in/#", 2)
    lost.connect()
    for _ in range(3):
        lost.session.publish(b"out", b"old", 2, False)
    lost._flush()
    came = 0
    while came < 12:  # three PUBRECs, which nobody answers: mosquitto has the ids, and waits for PUBREL
        lost._transport.wait(1000)
        came += lost._transport.receive(bytearray(12), 12 - came)
    make.cut_power(lost)
    other = make(port, client_id="other")
    other.subscribe("out", 2, lambda m: heard.append(m.payload))
    other.connect()
    for k in range(20):
        other.publish("in/x", b"%d" % k, 1 + k % 2)
    assert other.drain(3000)
    fresh = make(port)
    fresh.subscribe("in/#", 2, lambda m: got.append(m.payload))
    fresh.connect()
    for k in range(20):
        fresh.publish("out", b"%d" % k, 2)
    assert fresh.drain(3000)
    pump(fresh, lambda: len(got) == 20)
    pump(other, lambda: heard[-1:] == [b"19"])
    assert sorted(got, key=int) == [b"%d" % k for k in range(20)]
    assert [p for p in heard if p != b"old"] == [b"%d" % k for k in range(20)]


# --- who may ---


@pytest.fixture
def guarded(serve, tmp_path):
    """A broker that knows the user "me" with the password "right"."""
    import base64
    import hashlib

    salt = b"salt" * 3
    digest = hashlib.pbkdf2_hmac("sha512", b"right", salt, 101, 64)
    file = tmp_path / "passwords"
    file.write_text(f"me:$7$101${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}\n")
    return serve(f"password_file {file}", "allow_anonymous false")


def test_password(guarded, make):
    """[MQTT-3.1.2-19] [MQTT-3.1.2-21] The right one."""
    client = make(guarded.port, user="me", password="right")
    client.connect()
    assert client.ping() >= 0


@pytest.mark.parametrize("options", [{"user": "me", "password": "wrong"}, {"user": "me"}, {}], ids=repr)
def test_wrong_password(guarded, make, options):
    """[MQTT-3.2.2-5] Refused, with the code of the CONNACK."""
    client = make(guarded.port, **options)
    with pytest.raises(ConnectRefused) as caught:
        client.connect()
    assert caught.value.code in (4, 5)


# --- TLS ---


class Authority:
    """A certificate authority, made at test time."""

    def __init__(self, folder, name):
        from cryptography.hazmat.primitives.asymmetric import ec

        self.folder, self.name = folder, name
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.certificate = self._sign(name, self.key.public_key(), True, [])
        self.file = self._save(name + ".ca", self.certificate)

    def _sign(self, name, public, authority, names):
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes
        from cryptography.x509.oid import NameOID

        now = datetime.datetime.now(datetime.timezone.utc)

        def named(text):
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        builder = (
            x509.CertificateBuilder()
            .subject_name(named(name))
            .issuer_name(named(self.name))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(days=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(self.key, hashes.SHA256())

    def _save(self, name, certificate):
        from cryptography.hazmat.primitives import serialization

        file = self.folder / (name + ".pem")
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return str(file)

    def issue(self, name, *names):
        """(certificate file, key file) of a new key."""
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec

        key = ec.generate_private_key(ec.SECP256R1())
        file = self._save(name, self._sign(name, key.public_key(), False, list(names)))
        key_file = self.folder / (name + ".key")
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.TraditionalOpenSSL,
                serialization.NoEncryption(),
            )
        )
        return file, str(key_file)


@pytest.fixture(scope="module")
def pki(tmp_path_factory):
    """Two authorities; the first has issued a broker's and a client's certificate, the second a client's."""
    x509 = pytest.importorskip("cryptography.x509")
    folder = tmp_path_factory.mktemp("pki")

    class Pki:
        ca = Authority(folder, "ours")
        other = Authority(folder, "theirs")
        server = ca.issue("server", x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName("localhost"))
        misnamed = ca.issue("misnamed", x509.DNSName("elsewhere.example"))
        client = ca.issue("client")
        stranger = other.issue("stranger")

    return Pki


def tls_lines(pki, server):
    return f"cafile {pki.ca.file}", f"certfile {server[0]}", f"keyfile {server[1]}"


def context(pki, ca=None, client=None):
    made = ssl.create_default_context(cafile=(ca or pki.ca).file)
    if client:
        made.load_cert_chain(*client)
    return made


def through_tls(serve_lines, serve, make, tls):
    broker = serve(*serve_lines)
    return make(broker.port, tls=tls), broker


def test_tls(serve, make, pki, pump):
    """[MQTT-7.1.2-1] A verified connection carries every QoS, and payloads longer than a record."""
    got = []
    client, _ = through_tls(tls_lines(pki, pki.server), serve, make, context(pki))
    client.subscribe("t", 2, lambda m: got.append(m.payload), stream=True)
    client.connect()
    for qos in range(3):
        client.publish("t", b"%d" % qos, qos=qos)
    client.publish("t", bytes(50_000))
    assert client.drain(3000)
    pump(client, lambda: sum(map(len, got)) >= 50_003)
    assert sorted(g for g in got if len(g) == 1) == [b"0", b"1", b"2"]


def test_tls_outlives_a_restart_of_the_broker(serve, make, pki):
    client, broker = through_tls(tls_lines(pki, pki.server), serve, make, context(pki))
    client.connect()
    broker.stop()
    client.publish("t", b"1", qos=2)
    broker.start()
    assert client.drain(5000)


def test_wrong_ca(serve, make, pki):
    """A broker that nobody we know vouches for."""
    client, _ = through_tls(tls_lines(pki, pki.server), serve, make, context(pki, pki.other))
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        client.connect()
    assert not client.connected


def test_wrong_host_name(serve, make, pki):
    """A good certificate of somebody else."""
    client, _ = through_tls(tls_lines(pki, pki.misnamed), serve, make, context(pki))
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        client.connect()


def test_client_certificate(serve, make, pki):
    lines = (*tls_lines(pki, pki.server), "require_certificate true")
    client, _ = through_tls(lines, serve, make, context(pki, client=pki.client))
    client.connect()
    assert client.ping() >= 0


@pytest.mark.parametrize("who", ["nobody", "stranger"])
def test_client_certificate_refused(serve, make, pki, who):
    lines = (*tls_lines(pki, pki.server), "require_certificate true")
    client, _ = through_tls(lines, serve, make, context(pki, client=pki.stranger if who == "stranger" else None))
    with pytest.raises(OSError):
        client.connect()
        client.ping()


def test_tls_to_a_broker_without(serve, make, pki):
    """A plain broker in the place of a TLS one: an error, in bounds."""
    client = Client("127.0.0.1", "dev", Journal(RamFlash()), port=serve().port, tls=context(pki), timeout_ms=500)
    with pytest.raises(OSError):
        client.connect()

"""The blocking client against mosquitto: what a broker that others wrote makes of it."""

import datetime
import ipaddress
import ssl

import pytest

from fleet.mosquitto import Mosquitto, unavailable
from inflight import Client, ConnectRefused, FileFlash, Journal, RamFlash

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


@pytest.fixture
def broker(serve):
    return serve()


@pytest.fixture
def listen(make):
    """listen(broker, filter) is a connected client that notes (topic, payload, qos, retain) in `got`."""

    def start(broker, name="#", device=None, client_id="listener", qos=2, **options):
        client = make(broker.port, device, client_id=client_id, **options)
        client.got = []
        client.subscribe(name, qos, lambda m: client.got.append((m.topic, m.payload, m.qos, m.retain)), stream=True)
        client.connect()
        return client

    return start


@pytest.mark.parametrize("level", [3, 4])
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_out_and_in(broker, make, listen, pump, qos, level):
    """[MQTT-4.3.1-1] [MQTT-4.3.2-1] [MQTT-4.3.2-2] [MQTT-4.3.3-1] [MQTT-4.3.3-2] Every QoS there and back, in order."""
    listener = listen(broker, "t/#", level=level)
    sender = make(broker.port, client_id="sender", level=level)
    sender.connect()
    for k in range(50):
        sender.publish(f"t/{k}", b"payload %d" % k, qos=qos)
    assert sender.drain(3000)
    pump(listener, lambda: len(listener.got) >= 50)
    assert listener.got == [(f"t/{k}", b"payload %d" % k, qos, False) for k in range(50)]


def test_granted_and_several_filters(serve, make):
    """[MQTT-3.8.4-5] [MQTT-3.9.3-1] Three filters, three answers; unsubscribe."""
    client = make(serve().port)
    client.connect()
    assert client.subscribe([("a", 0), ("b/+", 1), ("c/#", 2)]) == [0, 1, 2]
    assert client.subscribe("d", 1) == 1
    client.unsubscribe("a", "b/+")
    assert client.ping() >= 0


def test_retained(broker, make, listen, pump):
    """[MQTT-3.3.1-8] [MQTT-3.3.1-9] [MQTT-3.3.1-10] Kept, marked, and wiped by an empty one."""
    sender = make(broker.port, client_id="sender")
    sender.connect()
    sender.publish("r", b"kept", qos=1, retain=True)
    assert sender.drain(3000)
    first = listen(broker, "r", client_id="first")
    pump(first, lambda: first.got)
    assert first.got == [("r", b"kept", 1, True)]
    sender.publish("r", b"", qos=1, retain=True)
    assert sender.drain(3000)
    pump(first, lambda: len(first.got) == 2)
    assert first.got[1] == ("r", b"", 1, False)
    second = listen(broker, "r", client_id="second")
    second.ping()
    assert second.got == []


def test_will(broker, make, listen, pump):
    """[MQTT-3.1.2-9] [MQTT-3.14.4-1] Published when the client dies, not when it takes its leave."""
    listener = listen(broker, "status/#")
    for name, dies in (("one", False), ("two", True)):
        client = make(broker.port, client_id=name, will=("status/" + name, b"gone", 1, True))
        client.connect()
        if dies:
            make.cut_power(client)
        else:
            client.disconnect()
    pump(listener, lambda: listener.got)
    listener.ping()
    assert listener.got == [("status/two", b"gone", 1, False)]


def test_session_resumes(broker, make, listen, pump):
    """[MQTT-3.1.2-4] [MQTT-3.2.2-2] [MQTT-4.1.0-1] What was sent meanwhile is waiting; subscriptions stand."""
    device = RamFlash()
    first = listen(broker, "t", device)
    first.disconnect()
    sender = make(broker.port, client_id="sender")
    sender.connect()
    for k in range(5):
        sender.publish("t", b"%d" % k, qos=2)
    assert sender.drain(3000)
    got = []
    second = make(broker.port, device, client_id="listener", on_message=lambda m: got.append(m.payload))
    second.connect()
    assert second.session.present
    pump(second, lambda: len(got) == 5)
    assert got == [b"%d" % k for k in range(5)]


def test_broker_restarts(broker, make, listen, pump):
    """[MQTT-4.4.0-1] With persistence, in the middle of everything: all arrives, QoS 2 once."""
    listener = listen(broker, "t")
    sender = make(broker.port, RamFlash(8, 4096), client_id="sender")
    sender.connect()
    for k in range(60):
        if k in (20, 40):
            broker.restart()
        sender.publish("t", b"%d" % k, qos=2)
        sender.run_for(1)
        listener.run_for(1)
    assert sender.drain(5000)
    pump(listener, lambda: len(listener.got) >= 60, 5000)
    assert [g[1] for g in listener.got] == [b"%d" % k for k in range(60)]


def test_broker_is_killed(broker, make, pump):
    """[MQTT-3.2.2-3] A broker without memory: what it had not acknowledged arrives, subscriptions are made again."""
    got = []
    client = make(broker.port, RamFlash(8, 4096))
    client.subscribe("echo", 1, lambda m: got.append(m.payload))
    client.connect()
    broker.kill()
    for k in range(20):
        client.publish("echo", b"%d" % k, qos=1)
    broker.start()
    assert client.drain(5000)
    pump(client, lambda: len(got) >= 20)
    assert sorted(set(got), key=int) == [b"%d" % k for k in range(20)]


def test_client_restarts(broker, make, listen, pump, tmp_path):
    """[MQTT-4.1.0-1] [MQTT-3.3.1-1] Power is cut again and again between publish() and its end; a file is the flash."""
    listener = listen(broker, "t")
    flash = str(tmp_path / "flash")
    for k in range(30):
        device = FileFlash(flash, blocks=4, block_size=4096)
        client = make(broker.port, device, client_id="sender")
        client.connect()
        client.publish("t", b"%d" % k, qos=2)
        if k % 3:
            client.run_for(k % 4)
        make.cut_power(client)
        device.close()
    client = make(broker.port, FileFlash(flash, blocks=4, block_size=4096), client_id="sender")
    client.connect()
    assert client.drain(5000)
    pump(listener, lambda: len(listener.got) >= 30)
    assert [g[1] for g in listener.got] == [b"%d" % k for k in range(30)]


def test_client_restarts_while_it_receives(broker, make, listen, pump):
    """[MQTT-4.3.3-2] Each QoS 2 message reaches a handler once, though the power is cut again and again."""
    device = RamFlash()
    listen(broker, "t", device).disconnect()
    sender = make(broker.port, RamFlash(8, 4096), client_id="sender")
    sender.connect()
    for k in range(60):
        sender.publish("t", b"%d" % k, qos=2)
    assert sender.drain(5000)
    got = []
    for life in range(200):
        client = make(broker.port, device, client_id="listener", on_message=lambda m: got.append(m.payload))
        client.connect()
        client.run_for(1)
        make.cut_power(client)
        if len(got) >= 60 and life > 20:
            break
    assert got == [b"%d" % k for k in range(60)]


def test_large(broker, make, listen, pump):
    """A payload of 100 KB, streamed out and in through 1 KB."""
    payload = bytes(k * 31 & 255 for k in range(100_000))
    listener = listen(broker, "big")
    sender = make(broker.port, RamFlash(4, 65536), client_id="sender")
    sender.connect()
    for qos in range(3):
        del listener.got[:]
        size = 60_000 if qos else 100_000  # a record of the journal is shorter than 64 KB
        sender.publish("big", payload[:size], qos=qos)
        assert sender.drain(5000)
        pump(listener, lambda n=size: sum(len(g[1]) for g in listener.got) >= n)
        assert b"".join(g[1] for g in listener.got) == payload[:size]


def test_second_client_with_the_same_id(broker, make, pump):
    """[MQTT-3.1.4-2] The older connection is ended; it comes back after a pause, not in a storm."""
    first = make(broker.port, client_id="twin", backoff=(50, 100))
    first.connect()
    second = make(broker.port, client_id="twin", clean=True, backoff=(10_000, 10_000))
    second.connect()
    pump(first, lambda: client_lost(first))
    assert second.ping() >= 0
    pump(first, lambda: first.counters()["connects"] >= 2)
    pump(second, lambda: client_lost(second))
    assert first.ping() >= 0
    assert first.counters()["connects"] <= 4


def client_lost(client):
    return client.counters()["outages"] >= 1


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
    client = Client("127.0.0.1", "dev", Journal(RamFlash()), port=serve().port, tls=context(pki), timeout=500)
    with pytest.raises(OSError):
        client.connect()

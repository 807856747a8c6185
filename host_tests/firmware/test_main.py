"""The firmware as a process of its own, as a board runs it: power cuts, wrong configurations, TLS."""

import contextlib
import datetime
import ipaddress
import random
import select
import socket
import ssl
import threading

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

CUTS = {"cpython": 4, "micropython-x86": 16}
AGAIN = 75  # exit status of a board that wants to be started again


@pytest.mark.parametrize("qos", [1, 2])
def test_nothing_accepted_is_lost_by_killing_it(machine, broker, qos, told):
    random.seed(qos)
    machine.configure(port=broker.port, qos=qos)
    for _ in range(CUTS[machine.name]):
        goal = len(machine.accepted()) + random.randint(1, 4)
        machine.start()
        machine.wait_for(machine.accepted, goal)
        machine.kill()
    machine.start()
    broker.give("inflight/box/command/reboot", b"", 2)
    assert machine.end()[1] == AGAIN
    accepted = [seq for seq, _, _ in machine.accepted()]
    arrived = [body["seq"] for body in told()]
    assert len(accepted) > CUTS[machine.name] and not set(accepted) - set(arrived)
    # The journal's numbers have no gap, whatever was being written when the power went.
    assert sorted(set(arrived)) == list(range(max(arrived) + 1))
    assert len({body["epoch"] for body in told()}) == 1
    twice = [m for m in broker.arrived if m.qos == 2 and [n.payload for n in broker.arrived].count(m.payload) > 1]
    assert not twice


def test_health_tells_why_it_started(machine, broker, told):
    machine.configure(port=broker.port)

    def causes():  # by number: a message can arrive twice at QoS 1
        return {body["seq"]: body["reset"] for body in told("health")}

    for starts, end in enumerate(("kill", "reboot", "nothing"), 1):
        machine.start()
        machine.wait_for(causes, starts)
        if end == "kill":
            machine.kill()
        elif end == "reboot":
            broker.give("inflight/box/command/reboot", b"", 2)
            machine.end()
    assert [cause for _, cause in sorted(causes().items())] == ["power-on", "power-cut", "soft"]


def test_reboot_says_goodbye_and_asks_to_be_started_again(machine, broker, told):
    machine.configure(port=broker.port)
    machine.start()
    machine.wait_for(lambda: told("status"))
    broker.give("inflight/box/command/reboot", b"", 2)
    assert machine.end()[1] == AGAIN
    assert [body["state"] for body in told("status")] == ["online", "offline"]


@pytest.mark.parametrize(
    "config, says",
    [
        ("", "not JSON"),
        ('{"port": 1}', 'write "host": "broker.example"'),
        ('{"host": "h", "qos": 7}', "qos: write a whole number from 1 to 2"),
        ('{"host": "h", "wlan": "x"}', 'unknown field "wlan"'),
        ('{"host": "h", "protocol_level": 3, "device": "a-name-of-more-than-23-characters"}', "1 to 23 characters"),
        (None, 'create it with {"host": "broker.example"}'),
        ('{"host": "h", "tls_ca": "no-such-file"}', "tls_ca: no file no-such-file"),
        ('{"host": "h", "tls_ca": "config.json"}', "tls: write certificates and keys as DER files"),
        ('{"host": "h", "sleep_ms": 5000, "watchdog_ms": 1, "timeout_ms": 100}', "watchdog_ms"),
    ],
)
def test_wrong_configuration_ends_with_what_to_do_in_one_line(machine, config, says):
    if config is not None:
        (machine.home / "config.json").write_text(config.replace("config.json", str(machine.home / "config.json")))
    machine.start()
    output, status = machine.end()
    (line,) = output.splitlines()
    assert status == 1 and line.startswith("inflight: ") and says in line


def test_no_secret_is_printed(machine):
    fields = {"user": "me", "password": "hunter2", "wifi_ssid": "net", "wifi_key": "hunter3", "qos": 9}
    machine.configure(port=1, **fields)
    machine.start()
    assert "hunter" not in machine.end()[0]


# --- TLS ---


def certificate(name, issuer=None):
    """(certificate, key): signed by `issuer`, such a pair, or a CA if there is none."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.timezone.utc)
    names = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer[0].subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=not issuer, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
    )
    return builder.sign(issuer[1] if issuer else key, hashes.SHA256()), key


def write(folder, name, pair, form):
    """Files name.crt and name.key in this form, as paths."""
    encoding = {"pem": serialization.Encoding.PEM, "der": serialization.Encoding.DER}[form]
    crt, key = folder / f"{name}.crt", folder / f"{name}.key"
    crt.write_bytes(pair[0].public_bytes(encoding))
    shape = serialization.PrivateFormat.TraditionalOpenSSL
    key.write_bytes(pair[1].private_bytes(encoding, shape, serialization.NoEncryption()))
    return str(crt), str(key)


@contextlib.contextmanager
def tls_in_front_of(broker, context):
    """A port that speaks TLS, and passes on to the broker what is said there."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=serve, args=(listener, context, broker.port), daemon=True).start()
        yield listener.getsockname()[1]
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)


def serve(listener, context, port):
    with contextlib.suppress(OSError):
        while True:
            sock, _ = listener.accept()
            with contextlib.suppress(OSError), sock:
                sock.settimeout(5)
                forward(context.wrap_socket(sock, server_side=True), port)


def forward(outside, port):
    with outside, socket.create_connection(("127.0.0.1", port)) as inside:
        while True:
            ready = [outside] if outside.pending() else select.select([outside, inside], [], [], 5)[0]
            for source, sink in ((outside, inside), (inside, outside)):
                if source in ready:
                    data = source.recv(65536)
                    if not data:
                        return
                    sink.sendall(data)


@pytest.fixture
def authority():
    return certificate("the authority")


@pytest.fixture
def context(tmp_path, authority):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write(tmp_path, "server", certificate("localhost", authority), "pem"))
    return context


@pytest.mark.parametrize("form", ["pem", "der"])
def test_tls_with_the_right_authority(machine, broker, tmp_path, authority, context, form, told):
    ca, _ = write(tmp_path, "ca", authority, form)
    with tls_in_front_of(broker, context) as port:
        machine.configure(host="localhost", port=port, tls_ca=ca)
        machine.start()
        machine.wait_for(lambda: told("status"))


def test_tls_with_another_authority_says_nothing_to_the_broker(machine, broker, tmp_path, context):
    ca, _ = write(tmp_path, "ca", certificate("somebody else"), "pem")
    with tls_in_front_of(broker, context) as port:
        machine.configure(host="localhost", port=port, tls_ca=ca)
        machine.start()
        line = machine.process.stdout.readline().decode()
        assert line.startswith(("inflight: OSError", "inflight: SSLCertVerificationError")), line
        # It goes on measuring meanwhile.
        machine.wait_for(machine.accepted, 3)
        assert not broker.connections or not broker.connections[0].packets


def test_tls_shows_its_own_certificate(machine, broker, tmp_path, authority, context, told):
    ca, _ = write(tmp_path, "ca", authority, "pem")
    cert, key = write(tmp_path, "client", certificate("box", authority), "pem")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ca)
    with tls_in_front_of(broker, context) as port:
        machine.configure(host="localhost", port=port, tls_ca=ca, tls_cert=cert, tls_key=key)
        machine.start()
        machine.wait_for(lambda: told("status"))

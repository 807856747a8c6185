"""The firmware as a process, as a board runs it: power cuts, wrong configurations, TLS."""

import json
import random
import ssl

import pytest
import trustme

from tools.peers.certificates import server_context, write
from tools.peers.tls_proxy import tls_proxy

CUTS = {"cpython": 4, "micropython-x86": 16}
AGAIN = 75  # exit status that asks for a restart


@pytest.mark.parametrize("qos", [1, 2])
def test_nothing_accepted_is_lost_by_killing_it(machine, broker, qos, published):
    random.seed(qos)
    machine.configure(port=broker.port, qos=qos)
    for _ in range(CUTS[machine.found.name]):
        goal = len(machine.accepted()) + random.randint(1, 4)
        machine.start()
        machine.wait_for(machine.accepted, goal)
        machine.kill()
    machine.start()
    broker.give("inflight/box/command/reboot", b"", 2)
    assert machine.end()[1] == AGAIN
    machine.check_arrived(broker, published(), CUTS[machine.found.name])
    assert len({body["epoch"] for body in published()}) == 1


def online(machine, published, **config):
    """Starts the machine, and waits until it has told its status."""
    machine.configure(**config)
    machine.start()
    machine.wait_for(lambda: published("status"))


@pytest.mark.parametrize(
    "config, message",
    [
        ("", "not JSON"),
        ('{"host": "h", "protocol_level": 3, "device": "a-name-of-more-than-23-characters"}', "1 to 23 characters"),
        (None, 'create it with {"host": "broker.example"}'),
        ('{"host": "h", "tls_ca": "no-such-file"}', "tls_ca: no file no-such-file"),
        ('{"host": "h", "tls_ca": "config.json"}', "tls: write certificates and keys as DER files"),
    ],
)
def test_wrong_configuration_ends_with_advice_in_one_line(machine, config, message):
    if config is not None:
        (machine.home / "config.json").write_text(config.replace("config.json", str(machine.home / "config.json")))
    machine.start()
    output, status = machine.end()
    (line,) = output.splitlines()
    assert status == 1 and line.startswith("inflight: ") and message in line


def settings(machine):
    return json.loads((machine.home / "config.json").read_text())


def test_settings_survive_restarts(machine, broker, published):
    """They are their owner's alone, also while they are tried, whatever mode the file had before; so is all else that
    the device writes."""
    online(machine, published, port=broker.port, user="me", password="hunter2")
    (machine.home / "config.json").chmod(0o644)

    def readable():
        return [file.name for file in machine.home.iterdir() if file.stat().st_mode & 0o077]

    broker.give("inflight/box/command/set", b'{"interval_ms": 250, "health_ms": null}', 2)
    assert machine.end()[1] == AGAIN
    assert published("reply/set")[0]["ok"] and readable() == ["config.json"]
    for _ in range(2):
        before = len(published("status"))
        machine.start()
        machine.wait_for(lambda before=before: published("status")[before:])
        machine.kill()
        assert settings(machine)["interval_ms"] == 250 and readable() == []
    assert sorted(file.name for file in machine.home.glob("config*")) == ["config.json"]


@pytest.fixture
def authority():
    return trustme.CA()


@pytest.fixture
def context(authority):
    return server_context(authority, "localhost")


@pytest.fixture
def ca(tmp_path, authority):
    """The file of the authority's certificate."""
    file = tmp_path / "ca"
    authority.cert_pem.write_to_path(file)
    return file


def test_tls_with_another_authority_sends_nothing_to_the_broker(machine, broker, ca, context):
    trustme.CA().cert_pem.write_to_path(ca)
    with tls_proxy(broker.port, context) as tls:
        machine.configure(host="localhost", port=tls.port, tls_ca=str(ca))
        machine.start()
        line = machine.process.stdout.readline().decode()
        assert line.startswith(("inflight: OSError", "inflight: SSLCertVerificationError")), line
        # The sensors are still read.
        machine.wait_for(machine.accepted, 3)
        assert not broker.connections or not broker.connections[0].packets


def test_tls_with_a_client_certificate(machine, broker, tmp_path, authority, context, published):
    ca, cert, key = write(tmp_path, authority, "box")
    context.verify_mode = ssl.CERT_REQUIRED
    context.load_verify_locations(ca)
    with tls_proxy(broker.port, context) as tls:
        online(machine, published, host="localhost", port=tls.port, tls_ca=ca, tls_cert=cert, tls_key=key)

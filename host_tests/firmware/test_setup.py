"""A device without configuration, as a process: its page, its name server, and Improv."""

import json
import os
import socket
import subprocess
from pathlib import Path

import pytest
import trustme

from host_tests.firmware.setting_up import Page, Serial, ask_name, improv
from inflight import __version__
from inflight_tools.boards.build.bundle import files
from inflight_tools.cache import write_below
from tools.peers.certificates import der, server_context
from tools.peers.daemon import held_port
from tools.peers.tls_proxy import tls_proxy

RUNTIMES = "micropython-x86"
MORE_RUNTIMES = "cpython"
AGAIN = 75  # exit status that asks for a restart
NETWORKS = [
    {"ssid": "cellar", "rssi": -80, "key": "other-key"},
    {"ssid": "attic", "rssi": -60, "key": "the-wifi-key"},
    {"ssid": "<b>&\"'", "rssi": -70},
]
WIFI = {"ssid": "attic", "key": "the-wifi-key"}


@pytest.fixture
def device(machine):
    """A Machine without configuration."""
    machine.page_port = held_port(machine)
    machine.dns_port = held_port(machine, socket.SOCK_DGRAM)
    machine.environment = {"INFLIGHT_SETUP": f"{machine.page_port}:{machine.dns_port}"}
    machine.stdin = subprocess.PIPE
    (machine.home / "networks.json").write_text(json.dumps(NETWORKS))
    return machine


@pytest.fixture
def page(device):
    device.start()
    page = Page(device.page_port)
    device.wait_for(lambda: [1] * page.there())
    return page


def configuration(device):
    path = device.home / "config.json"
    return json.loads(path.read_text()) if path.exists() else None


# --- success ---


def test_a_device_is_set_up_and_publishes(device, page, broker, published):
    assert len(page.text.encode()) < 8192 and "<script" not in page.text
    assert '<option value="&lt;b&gt;&amp;&quot;&#39;"' in page.text and "<b>" not in page.text
    told = page.try_(**WIFI, host="127.0.0.1", port=broker.port, device="attic-1", user="", password="")
    assert told == "Saved. The device restarts, and connects to 127.0.0.1."
    output, status = device.end()
    assert status == AGAIN and "the-wifi-key" not in output
    assert (device.home / "config.json").stat().st_mode & 0o777 == 0o600
    wanted = {"wifi_ssid": "attic", "wifi_key": "the-wifi-key", "host": "127.0.0.1", "port": broker.port}
    assert configuration(device) == {**wanted, "device": "attic-1"}
    assert [c.packets[0].client_id for c in broker.connections] == ["attic-1-setup"]
    device.start()
    device.wait_for(lambda: published("status"))
    assert broker.connections[-1].packets[0].client_id == "attic-1"
    with pytest.raises(ConnectionRefusedError):
        page.request("GET", "/")


# --- a device with a configuration ---

CODE = "the-set-up-code"


@pytest.fixture
def again(device, nobody):
    """The page of a device that had no network for an hour: messages wait in its journal. `fields`: of its
    configuration."""
    page = Page(device.page_port)
    page.fields = {"wifi_ssid": "attic", "wifi_key": "the-old-key", "host": "127.0.0.1", "port": nobody}
    page.fields.update(interval_ms=100, user="me", password="the-password", setup={"code": CODE})
    device.configure(**page.fields)
    device.start()
    device.wait_for(device.accepted, 5)
    device.kill()
    (device.home / "next-start").write_text("soft")
    (device.home / "remembered").write_bytes(b"gone" + (3600).to_bytes(2, "little"))
    page.journal = (device.home / "journal.bin").read_bytes()
    device.start()
    device.wait_for(lambda: [1] * page.there())
    return page


def test_a_changed_key_is_entered_and_what_waited_is_delivered(device, again, broker, published):
    """On the page alone: Improv, which would bring a network without a code, is not there."""
    device.process.stdin.write(improv(1, settings(b"attic", b"the-wifi-key")))
    device.process.stdin.flush()
    assert again.there() and configuration(device) == again.fields
    told = again.try_(**WIFI, code=CODE)
    assert told == "Saved: the device restarts with the network attic"
    output, status = device.end()
    assert status == AGAIN and "open for 5 minutes" in output and CODE not in output
    assert configuration(device) == {**again.fields, "wifi_key": "the-wifi-key"}
    assert (device.home / "config.json").stat().st_mode & 0o777 == 0o600
    assert (device.home / "journal.bin").read_bytes() == again.journal
    waited = {seq for seq, _, _ in device.accepted()}
    device.configure(**{**again.fields, "port": broker.port})
    device.start()
    device.wait_for(lambda: waited & {body["seq"] for body in published()}, len(waited))


def test_every_other_address_leads_to_the_page(device, page):
    """What phones and computers ask to find out whether there is such a page."""
    assert ask_name(device.dns_port, "captive.apple.com") == [bytes((127, 0, 0, 1))]
    assert ask_name(device.dns_port, "captive.apple.com", kind=28) == []
    for host, path in (
        ("connectivitycheck.gstatic.com", "/generate_204"),
        ("captive.apple.com", "/hotspot-detect.html"),
        ("www.msftconnecttest.com", "/connecttest.txt"),
    ):
        status, headers, text = page.request("GET", path, Host=host)
        assert (status, headers["Location"], text) == (302, f"http://127.0.0.1:{page.port}/", "")


# --- failures ---


@pytest.mark.parametrize("form", ["pem", "der"])
def test_the_ca_is_uploaded(device, page, broker, form, published):
    right, wrong = trustme.CA(), trustme.CA()

    def file(ca):
        return der(ca) if form == "der" else ca.cert_pem.bytes()

    with tls_proxy(broker.port, server_context(right, "localhost")) as tls:
        place = {"host": "localhost", "port": tls.port}
        assert page.try_(**WIFI, **place, file=b"no certificate").startswith("The CA's file: ".replace("'", "&#39;"))
        told = page.try_(**WIFI, **place, file=file(wrong))
        assert told.startswith(f"No broker at localhost:{tls.port}: ") and "is it the right CA" in told
        assert not broker.connections or not broker.connections[0].packets
        assert page.try_(**WIFI, **place, file=file(right)).startswith("Saved.")
        assert device.end()[1] == AGAIN
        assert (device.home / "ca.der").read_bytes() == der(right)
        device.start()
        device.wait_for(lambda: published("status"))


# --- hostile input ---


def talk(port, data):
    """What the device answers, as far as it can be read."""
    with socket.create_connection(("127.0.0.1", port), 20) as sock:
        answer = b""
        try:
            sock.sendall(data)
            while got := sock.recv(4096):
                answer += got
        except ConnectionError:
            pass  # it closed before it had read everything
        return answer


POST = b"POST / HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: multipart/form-data; boundary=x\r\n"


def test_hostile_requests_change_nothing(device, page, broker):
    right = POST % page.port
    url = b"application/x-www-form-urlencoded"
    for data, status in (
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000, (b"431", b"")),
        (b"DELETE / HTTP/1.1\r\n\r\n", (b"405",)),
        (right + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", (b"411", b"")),
        (right.replace(b"127.0.0.1", b"evil.example") + b"Content-Length: 9\r\n\r\nno matter", (b"403",)),
        (right + b"Content-Length: 9\r\n\r\nno boundary", (b"303",)),
        (right + b"Content-Length: 500000\r\n\r\n" + b"x" * 500_000, (b"303",)),
        (right.replace(b"multipart/form-data", url) + b"Content-Length: 8\r\n\r\nhost=%ff", (b"303",)),
    ):
        answer = talk(page.port, data)
        assert (answer[9:12] or b"") in status, (data[:80], answer[:80])
    assert page.there() and configuration(device) is None and not broker.connections
    assert not [path for path in device.home.iterdir() if path.name not in ("networks.json", "next-start")]


def test_a_form_is_not_refused_before_it_has_come(device, page):
    """The connection would be reset then, and the browser might not show why."""
    with socket.create_connection(("127.0.0.1", page.port)) as sock:
        head = f"POST / HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\nOrigin: http://evil.example\r\nContent-Length: 9"
        sock.sendall(head.encode() + b"\r\n\r\nhost=a")
        assert page.there()  # another one waits: so this one has been dropped
        assert sock.recv(100) == b""
    with socket.create_connection(("127.0.0.1", page.port)) as sock:
        sock.sendall(head.encode() + b"\r\n\r\nhost=a")
        sock.sendall(b"bcd")
        assert sock.recv(100).startswith(b"HTTP/1.1 403")


# --- heap ---


@pytest.mark.parametrize("machine", ["micropython-x86"], indirect=True)
def test_heap(device, broker, tmp_path):
    """As it is deployed, on a 32-bit processor: the whole set-up with a form and an attempt."""
    for path, content in files("unix").items():
        write_below(tmp_path / "flash", {path[1:]: content})
    lib = {"MICROPYPATH": ".frozen:flash/lib"}  # relative: each module holds its path
    own = {"INFLIGHT_HOME": str(device.home), "INFLIGHT_DEVICE_ID": "box"}
    script = Path(__file__).parent / "device_scripts/setup_heap.py"
    device.process = subprocess.Popen(
        [*device.found.command("96k"), script],
        cwd=tmp_path,
        env={**os.environ, **device.environment, **lib, **own},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    page = Page(device.page_port)
    device.wait_for(lambda: [1] * page.there())
    assert page.try_(**WIFI, host="127.0.0.1", port=broker.port).startswith("Saved.")
    output, status = device.end()
    assert status == AGAIN, output
    held = [int(line.split()[1]) for line in output.splitlines() if line.startswith("heap ")]
    print(f"{held[0]:,} bytes of heap in the beginning, {held[-1]:,} at most")
    assert held[-1] < 49_200


# --- Improv ---

OK = (2, b"\0")


@pytest.fixture
def serial(device, page):
    return Serial(device.process)


def settings(ssid, key):
    return bytes([len(ssid)]) + ssid + bytes([len(key)]) + key


def test_improv_brings_the_network_and_the_page_the_rest(device, page, serial, broker):
    serial.send(b">>> \r\nIMPROV\1\3\2\2\0\0" + b"garbage")  # a wrong checksum
    assert serial.packet() == (2, b"\1")
    serial.command(3)
    assert (serial.packet(), serial.result()) == (OK, (3, ["Inflight", __version__, "unix", "inflight-box"]))
    serial.command(4)
    assert serial.packet() == OK
    found = [serial.result() for _ in range(4)]
    assert found[0] == (4, ["attic", "-60", "YES"]) and found[1][1][2] == "NO" and found[-1] == (4, [])
    serial.command(99)
    assert serial.packet() == (2, b"\2")
    serial.command(1, b"\5x")
    assert [serial.packet(), serial.packet()] == [OK, (2, b"\1")]
    serial.command(1, settings(b"attic", b"wrong-key"))
    assert [serial.packet() for _ in range(4)] == [OK, (1, b"\3"), (1, b"\2"), (2, b"\3")]
    serial.command(1, settings(b"attic", b"the-wifi-key"))
    assert [serial.packet() for _ in range(3)] == [OK, (1, b"\3"), (1, b"\4")]
    url = f"http://127.0.0.2:{page.port}/"
    assert serial.result() == (1, [url])
    serial.command(2)
    assert [serial.packet(), serial.packet()] == [OK, (1, b"\4")]
    assert serial.result() == (2, [url])
    # The page is there in the network, too, and asks only for the rest.
    assert page.request("GET", "/", Host=f"127.0.0.2:{page.port}")[0] == 200
    assert '<option value="attic" selected>' in page.text and "the-wifi-key" not in page.text
    assert page.try_(ssid="attic", key="", host="127.0.0.1", port=broker.port).startswith("Saved.")
    assert device.end()[1] == AGAIN
    assert configuration(device)["wifi_key"] == "the-wifi-key"


def test_ctrl_c_ends_the_set_up(device, serial):
    """A byte of each command is Ctrl-C; only one outside is meant for the interpreter."""
    serial.command(2)
    assert [serial.packet(), serial.packet()] == [OK, (1, b"\2")]
    serial.send(b"\3")
    assert device.end()[1] == 0

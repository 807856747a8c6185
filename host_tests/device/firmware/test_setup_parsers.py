"""What the set-up of a device parses: Improv packets, DNS queries, HTTP requests, forms, uploaded certificates."""

import random
from binascii import b2a_base64

import setup_serial as improv
from files import exists
from harness import EMULATED, eq, raises
from scratch import remove, unused
from setup_certificate import Upload
from setup_http import BadRequest, Request, form
from setup_server import answer

RUNTIMES = "cpython micropython-x86"
ROUNDS = 100 if EMULATED else 600
ADDRESS = b"\xc0\xa8\4\1"
PATH = unused()


def mutated(data):
    data = bytearray(data)
    for _ in range(random.randint(1, 4)):
        data[random.randint(0, len(data) - 1)] = random.randint(0, 255)
    return bytes(data[: random.randint(0, len(data))]) if random.random() < 0.3 else bytes(data)


# --- Improv ---


def command(number, data=b"", kind=3):
    packet = b"IMPROV\1" + bytes((kind, len(data) + 2, number, len(data))) + data
    return packet + bytes((sum(packet) & 255,))


def received(data):
    receiver = improv.Receiver()
    return [found for found in [receiver.receive(byte) for byte in data] if found]


def test_improv_commands_are_found_among_other_bytes():
    scan = command(improv.REQUEST_NETWORKS)
    expected = [(improv.REQUEST_NETWORKS, b"")]
    for noise in (b"", b">>> print(1)\r\n", b"I", b"IMP", b"IMPROV", b"IMPROVIMPROV", b"\0\xff\n"):
        eq(received(noise + scan + noise), expected)
    eq(received(scan + scan), expected * 2)
    # Those of devices are ignored.
    for packet in (improv.state_packet(2), improv.error_packet(0), improv.result_packet(1, "http://192.168.4.1/")):
        eq(received(packet), [])


def test_improv_settings():
    data = b"\x0cMyWirelessAP\x10mysecurepassword"
    eq(received(command(1, data)), [(improv.SEND_WIFI, data)])
    eq(improv.wifi_settings(data), ("MyWirelessAP", "mysecurepassword"))
    eq(improv.wifi_settings(b"\4open\0"), ("open", None))
    for wrong in (b"", b"\0", b"\0\0", b"\4open", b"\4open\1", b"\4open\1ab", b"\xffx", b"\2\xff\xff\0"):
        raises(ValueError, improv.wifi_settings, wrong)


def test_improv_damaged_packets_are_told():
    whole = command(2)
    for i in range(9, len(whole)):
        eq(received(whole[:i] + bytes((whole[i] ^ 1,)) + whole[i + 1 :]), [(improv.INVALID, b"")])
    short = b"IMPROV\1\3\3\2\5x"
    eq(received(short + bytes((sum(short) & 255,))), [(improv.INVALID, b"")])


# --- DNS ---


def query(name, kind=1, flags=b"\1\0", count=1):
    labels = b"".join(bytes((len(part),)) + part for part in name.split(b".") if part)
    return b"\x12\x34" + flags + bytes((0, count, 0, 0, 0, 0, 0, 0)) + labels + b"\0\0" + bytes((kind,)) + b"\0\1"


def test_every_name_has_the_address():
    for name in (b"captive.apple.com", b"connectivitycheck.gstatic.com", b"x", b""):
        asked = query(name)
        told = answer(asked, ADDRESS)
        eq(told[:12], b"\x12\x34\x85\0\0\1\0\1\0\0\0\0")
        eq(told[12 : len(asked)], asked[12:])
        eq(told[len(asked) :], b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + ADDRESS)
    for kind in (28, 65, 16):  # AAAA, HTTPS, TXT: no record
        asked = query(b"example.org", kind)
        told = answer(asked, ADDRESS)
        eq((told[3] & 15, told[7], len(told)), (0, 0, len(asked)))


def test_what_is_no_query_has_no_answer():
    whole = query(b"example.org")
    for wrong in (b"", whole[:12], query(b"a", flags=b"\x81\0"), query(b"a", count=2), query(b"a", flags=b"\x28\0")):
        eq(answer(wrong, ADDRESS), None)
    for n in range(len(whole)):
        eq(answer(whole[:n], ADDRESS), None)
    eq(answer(whole[:12] + b"\xc0\x0c\0\1\0\1", ADDRESS), None)
    eq(answer(whole[:12] + b"\x3f" + b"a" * 600, ADDRESS), None)


# --- HTTP ---

HEAD = b"POST /x?a=b HTTP/1.1\r\nHost: 192.168.4.1\r\nX: y\r\nOrigin: http://192.168.4.1\r\nContent-LENGTH: 5\r\n\r\nbo"


def test_a_request_comes_in_any_pieces():
    for size in (1, 7, 1000):
        request = Request()
        body = b""
        for i in range(0, len(HEAD), size):
            got = body is not None and request.receive(HEAD[i : i + size]) if not request.method else HEAD[i : i + size]
            body += got or b""
        eq((request.method, request.path, request.length, body), ("POST", "/x", 5, b"bo"))
        eq((request.headers["host"], request.headers["origin"]), ("192.168.4.1", "http://192.168.4.1"))


def status(head):
    return raises(BadRequest, Request().receive, head).status


def test_wrong_requests_have_a_status():
    eq(status(b"GET / HTTP/1.1\r\nA: " + b"x" * 4000), 431)
    for line in (b"GET /", b"GET  / HTTP/1.1", b"GET http://a/ HTTP/1.1", b"\xff\xff / HTTP/1.1", b"", b"GET / SPDY/3"):
        eq(status(line + b"\r\n\r\n"), 400)
    for header, code in (
        (b"Content-Length: x", 400),
        (b"Content-Length: \xc2\xb2", 400),
        (b"Content-Length: -1", 400),
        (b"Content-Length: ", 400),
        (b"Content-Length: 99999999", 413),
        (b"Transfer-Encoding: chunked", 411),
        (b"Host: a\r\nHost: b", 400),
    ):
        eq((header, status(b"POST / HTTP/1.1\r\n" + header + b"\r\n\r\n")), (header, code))


# --- forms ---


class File:
    def __init__(self):
        self.data = b""
        self.closed = False

    def write(self, data):
        self.data += data

    def close(self):
        self.closed = True


def part(name, data, more=b""):
    return b'--xyz\r\nContent-Disposition: form-data; name="' + name + b'"' + more + b"\r\n\r\n" + data + b"\r\n"


TYPE = 'multipart/form-data; boundary="xyz"'
FILE = b"\r\n--xy" + bytes(range(256)) * 3
BODY = (
    b"preamble\r\n"
    + part(b"ssid", "caf\u00e9 & co".encode())
    + part(b"empty", b"")
    + part(b"ca", FILE, b'; filename="my; ca.pem"\r\nContent-Type: application/x')
    + part(b"none", b"", b'; filename=""')
    + b"--xyz--\r\nepilogue"
)


def test_multipart_in_any_pieces():
    for size in (1, 2, 5, 64, 4096):
        files = []

        def opened(name, files=files):
            files.append((name, File()))
            return files[-1][1]

        parser = form(TYPE, opened)
        for i in range(0, len(BODY), size):
            parser.receive(BODY[i : i + size])
        eq(parser.close(), {"ssid": "caf\u00e9 & co", "empty": "", "none": ""})
        eq([(name, file.data, file.closed) for name, file in files], [("ca", FILE, True)])


def parsed(body, content_type=TYPE):
    parser = form(content_type, lambda name: File())
    for i in range(0, len(body), 100):
        parser.receive(body[i : i + 100])
    return parser.close()


def test_a_form_without_a_file():
    kind = "application/x-www-form-urlencoded;charset=UTF-8"
    eq(parsed(b"a=1+2&b=%C3%A9%26&c=&=x&d", kind), {"a": "1 2", "b": "\u00e9&", "c": "", "d": ""})
    for wrong in (b"a=%ff", b"a=%zz", b"a=%", b"a=" + b"x" * 900, b"&".join([b"%d=1" % i for i in range(33)])):
        raises(ValueError, parsed, wrong, kind)


def test_wrong_forms_are_refused():
    for kind in ("", "text/plain", "multipart/form-data", "multipart/form-data; boundary=" + "x" * 71):
        raises(ValueError, form, kind, None)
    many = b"".join([part(b"n%d" % i, b"1") for i in range(33)])
    for parts in (part(b"a", b"x" * 300), part(b"a", b"\xff"), b"--xyz\r\n\xff: \r\n\r\n1\r\n", part(b"", b"1"), many):
        raises(ValueError, parsed, parts + b"--xyz--")
    for wrong in (b"", BODY[: BODY.find(b"--xyz--")], b"--xyzz\r\n" + part(b"a", b"1"), b"--xyz\r\nA: " + b"x" * 2000):
        raises(ValueError, parsed, wrong)


def test_no_body_breaks_the_parser():
    random.seed(3)
    for _ in range(ROUNDS):
        try:
            parsed(mutated(BODY))
        except ValueError:
            pass


# --- certificates ---

DER = b"\x30\x82\1\x2c" + bytes([i & 255 for i in range(300)])


def pem(data):
    lines = [b2a_base64(data[i : i + 48]) for i in range(0, len(data), 48)]
    return b"-----BEGIN CERTIFICATE-----\n" + b"".join(lines) + b"-----END CERTIFICATE-----\n"


def uploaded(content, size):
    """What is in the file after an upload in pieces of `size`."""
    upload = Upload(PATH)
    try:
        for i in range(0, len(content), size):
            upload.write(content[i : i + size])
        upload.close()
        assert not exists(PATH)  # the form may still fail
        upload.keep()
        with open(PATH, "rb") as f:
            return f.read()
    finally:
        if not exists(PATH):
            upload.discard()
        remove(PATH)
        assert not exists(PATH + ".part")


def test_pem_and_der_become_der():
    text = b"Subject: /CN=an authority with a very long name " + b"x" * 300 + b"\n" + pem(DER)
    for content in (DER, pem(DER), pem(DER).replace(b"\n", b"\r\n"), pem(DER)[:-1], text):
        for size in (1, 13, 512):
            eq(uploaded(content, size), DER)


def test_what_is_no_certificate_is_refused():
    two = pem(DER) + pem(DER)
    key = pem(DER).replace(b"CERTIFICATE", b"PRIVATE KEY")
    large = b"\x30\x82\x40\0" + bytes(0x4000)
    damaged = pem(DER).replace(b"AQ", b"A=")
    for content in (b"", b"hello", DER[:-1], DER + b"x", two, key, large, pem(large), pem(DER)[:200], damaged, b"0"):
        raises(ValueError, uploaded, content, 100)

"""A person who sets up a device: asks its page, its name server, and speaks Improv with it."""

import http.client
import os
import re
import select
import socket

from host_tests.broker import PATIENCE_S
from host_tests.waiting import wait_for

HEAD = b"IMPROV\x01"


def patiently(what):
    """what(), again and again, until it is true; fails after a minute."""
    return wait_for(what, PATIENCE_S)


class Page:
    """The page at a port of 127.0.0.1."""

    def __init__(self, port):
        self.port = port
        self.text = ""

    def request(self, method, path, body=None, **headers):
        """(status, headers, text)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=240)
        headers = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            self.text = response.read().decode()
            return response.status, response.headers, self.text
        finally:
            connection.close()

    def there(self):
        """Whether the device answers."""
        try:
            return self.request("GET", "/")[0] == 200
        except OSError:
            return False

    def submit(self, file=None, **fields):
        """Sends the form as a browser does; returns the status."""
        parts = [(f'name="{name}"', str(value).encode()) for name, value in fields.items()]
        parts.append(('name="ca"; filename="%s"' % ("ca.pem" if file else ""), file or b""))
        body = b"".join(b"--x\r\nContent-Disposition: form-data; %s\r\n\r\n%s\r\n" % (h.encode(), d) for h, d in parts)
        kind = "multipart/form-data; boundary=x"
        origin = f"http://127.0.0.1:{self.port}"
        return self.request("POST", "/", body + b"--x--\r\n", Content_Type=kind, Origin=origin)[0]

    def told(self):
        """The outcome that the page tells, when nothing is being tried any more."""

        def outcome():
            text = self.request("GET", "/")[2]
            return 'http-equiv="refresh"' not in text and re.search('id="outcome">([^<]*)', text)

        return patiently(outcome)[1]

    def try_(self, **fields):
        """Submits the form, and returns the outcome."""
        assert self.submit(**fields) == 303
        return self.told()


def ask_name(port, name, kind=1):
    """The answers of the name server: the bytes of their addresses."""
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    question = labels + b"\0" + kind.to_bytes(2, "big") + b"\0\1"
    with socket.socket(type=socket.SOCK_DGRAM) as sock:
        sock.settimeout(240)
        sock.sendto(b"\xab\xcd\1\0\0\1\0\0\0\0\0\0" + question, ("127.0.0.1", port))
        response = sock.recv(512)
    assert response[:2] == b"\xab\xcd" and response[2] & 0x80 and response[3] & 15 == 0
    records = response[12 + len(question) :]
    assert len(records) == 16 * int.from_bytes(response[6:8], "big")
    return [records[i + 12 : i + 16] for i in range(0, len(records), 16)]


def improv(number, data=b""):
    """The packet with a command of Improv."""
    packet = HEAD + bytes([3, len(data) + 2, number, len(data)]) + data
    return packet + bytes([sum(packet) & 255])


def texts(data):
    """(command, [texts]) in the data of a result of Improv."""
    assert data[1] == len(data) - 2
    found, rest = [], data[2:]
    while rest:
        found.append(rest[1 : 1 + rest[0]].decode())
        rest = rest[1 + rest[0] :]
    return data[0], found


class Serial:
    """An Improv client on the two pipes of a process."""

    def __init__(self, process):
        self._in, self._out = process.stdin, process.stdout.fileno()
        self._rest = b""

    def send(self, data):
        self._in.write(data)
        self._in.flush()

    def command(self, number, data=b""):
        self.send(improv(number, data))

    def packet(self):
        """The next packet: (type, data). What else is on the console is skipped."""
        while True:
            at = self._rest.find(HEAD)
            n = self._rest[at + 8] if at >= 0 and len(self._rest) > at + 8 else 256
            if at >= 0 and len(self._rest) >= at + 10 + n:
                packet, self._rest = self._rest[at : at + 10 + n], self._rest[at + 10 + n :]
                assert sum(packet[:-1]) & 255 == packet[-1]
                return packet[7], packet[9:-1]
            assert select.select([self._out], [], [], 20)[0], "no answer in 20 s"
            got = os.read(self._out, 4096)
            assert got, "the process has ended"
            self._rest += got

    def result(self):
        """The next packet, a result: (command, [texts])."""
        kind, data = self.packet()
        assert kind == 4
        return texts(data)

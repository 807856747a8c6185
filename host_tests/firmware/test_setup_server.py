"""The web server of the set-up, in this process: peers that take their time."""

import select
import socket

import pytest

import setup_server
from host_tests.firmware.setting_up import free_ports


class Site:
    """Answers with a long page. `received`: the bodies of forms."""

    def __init__(self):
        self.received = b""
        self.answered = 0

    def check(self, request):
        return None

    def form(self, request):
        return self

    def receive(self, data):
        self.received += data

    def finish(self):
        return {}

    def respond(self, request, fields, error):
        return 200, None, (b"x" * 10_000 for _ in range(1000))

    def sent(self):
        self.answered += 1


class Server:
    def __init__(self):
        self.port = free_ports()[0]
        self.site = Site()
        self.pages = setup_server.Pages(select.poll(), self.port, self.site)

    def connect(self, data):
        sock = socket.create_connection(("127.0.0.1", self.port))
        sock.sendall(data)
        return sock

    def steps(self, n=200):
        for _ in range(n):
            self.pages.step()

    def closed(self, sock):
        """Whether the server has closed this connection; steps until it is known to have not."""
        sock.settimeout(0)
        self.steps()
        try:
            while sock.recv(65536):
                self.pages.step()
            return True
        except BlockingIOError:
            return False
        except ConnectionError:
            return True


@pytest.fixture
def now(monkeypatch):
    clock = [0]
    monkeypatch.setattr(setup_server, "ticks_ms", lambda: clock[0])
    return clock


@pytest.fixture
def server(now):
    server = Server()
    yield server
    server.pages._close()
    server.pages._listener.close()


ENDLESS = b"POST / HTTP/1.1\r\nContent-Length: 1000000\r\n\r\nx"


@pytest.mark.parametrize("data", [b"GET / HT", ENDLESS])
def test_a_request_that_does_not_end_is_dropped(server, now, data):
    with server.connect(data) as slow:
        for now[0] in (0, 10_000, 20_000):
            assert not server.closed(slow)
            slow.sendall(b"x")
        now[0] = 20_001
        assert server.closed(slow)
    with server.connect(b"GET / HTTP/1.1\r\n\r\n") as other:
        assert server.closed(other) and server.site.answered == 1


def test_a_browser_that_does_not_read_is_dropped(server, now):
    with server.connect(b"GET / HTTP/1.1\r\n\r\n") as slow:
        server.steps()
        assert server.pages._sock and not server.site.answered
        now[0] = 20_001
        server.steps(1)
        assert not server.pages._sock and not server.site.answered
        slow.close()


def test_one_client_at_a_time(server, now):
    """The second one waits until the first one has its answer."""
    with server.connect(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\na") as first:
        server.steps()
        with server.connect(b"GET / HTTP/1.1\r\n\r\n") as second:
            assert not server.closed(second)
            first.sendall(b"b")
            assert server.closed(first) and server.site.received == b"ab"
            assert server.closed(second) and server.site.answered == 2

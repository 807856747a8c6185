"""The web server of the set-up, in this process: peers that take their time."""

import select
import socket

import pytest

import setup_server


class Site:
    """Answers with a long page of `pieces`. `received`: the bodies of forms."""

    def __init__(self):
        self.pieces = 1000
        self.received = b""
        self.answered = 0

    def check(self, request):
        return None

    def form(self, request):
        return self

    def receive(self, data):
        self.received += data

    def close(self):
        return {}

    def respond(self, request, fields, error):
        return 200, None, (b"x" * 10_000 for _ in range(self.pieces))

    def sent(self):
        self.answered += 1


class Server:
    def __init__(self, most=8):
        self.site = Site()
        self.pages = setup_server.Pages(select.poll(), 0, self.site, most)
        self.port = self.pages.listener.getsockname()[1]  # one that was free: another process takes it from nobody

    def connect(self, data, host=1):
        """A client at 127.0.0.`host`, which the server has accepted."""
        sock = socket.create_connection(("127.0.0.1", self.port), source_address=(f"127.0.0.{host}", 0))
        sock.sendall(data)
        self.pages.step()
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
def server(request, now):
    server = Server(getattr(request, "param", 8))
    yield server
    server.pages.close_served()
    server.pages.listener.close()


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
    with server.connect(ENDLESS) as slow:
        now[0] += 10_000
        assert not server.closed(slow)
        with server.connect(b"G", 2) as other:  # it has less time while others wait
            assert server.closed(slow) and not server.closed(other)


def test_a_browser_that_does_not_read_is_dropped(server, now):
    with server.connect(b"GET / HTTP/1.1\r\n\r\n") as slow:
        server.steps()
        assert server.pages.sock and not server.site.answered
        now[0] = 20_001
        server.steps(1)
        assert not server.pages.sock and not server.site.answered
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


GET = b"GET / HTTP/1.1\r\n\r\n"


class Crowd:
    """Clients that send `data` and no more, one at each of the addresses `hosts`; whoever is dropped comes again."""

    def __init__(self, server, now, data, hosts):
        self._server, self._now, self._data = server, now, data
        self._clients = [(host, server.connect(data, host)) for host in hosts]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for _, sock in self._clients:
            sock.close()

    def _come_again(self):
        for k, (host, sock) in enumerate(self._clients):
            if gone(sock):
                sock.close()
                self._clients[k] = host, self._server.connect(self._data, host)

    def waited(self, host=1):
        """A person at that address, who comes last, asks for the page: returns after how many ms it is there."""
        began = self._now[0]
        answered = self._server.site.answered
        mine = self._server.connect(GET, host)
        while self._server.site.answered == answered:
            assert self._now[0] - began < 100_000
            self._now[0] += 100
            self._server.pages.step()
            self._come_again()
            if gone(mine) and self._server.site.answered == answered:  # too many wait
                mine.close()
                mine = self._server.connect(GET, host)
        mine.close()
        return self._now[0] - began


def gone(sock):
    """Whether the server has closed this connection."""
    try:
        return not sock.recv(1, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


@pytest.mark.parametrize("hosts, most_ms", [([2], 3_000), ([2, 3], 6_000), (range(2, 10), 20_000), ([2] * 20, 3_000)])
@pytest.mark.parametrize("data", [b"G", ENDLESS])
@pytest.mark.parametrize("server", [3, 8], indirect=True)
def test_clients_that_come_again_do_not_hold_up_a_person(server, now, data, hosts, most_ms):
    """Each page is there in time, not only the first."""
    server.site.pieces = 1
    with Crowd(server, now, data, hosts) as crowd:
        for _ in range(4):
            assert crowd.waited() <= most_ms


def test_clients_that_are_silent_hold_up_nobody(server, now):
    """Browsers open connections that they may not use."""
    server.site.pieces = 1
    with Crowd(server, now, b"", [*range(2, 10)] * 3) as crowd:
        for _ in range(4):
            assert crowd.waited() <= 100

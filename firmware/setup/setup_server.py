# The sockets of the set-up: a web server, which serves one client at a time, and a name server, which gives each name
# the address of the device, so that phones and computers find the page (RFC 1035). Nothing blocks.

import select
import socket

from inflight.compat import const, ticks_diff, ticks_ms
from setup_http import BadRequest, Request, head

_PIECE = const(512)
_PIECES = const(8)  # received in one step, at most
_LIMIT_MS = const(20_000)  # for a request and its response
_SHORT_MS = const(2_000)  # if others wait
_REMEMBERED = const(16)  # addresses that were served
_DNS_HEADER = const(12)
_LONGEST_QUERY = const(512)
_NAME = const(255)
_A = const(1)
_IN = const(1)


def _question_end(query):
    # The index after the only question; None if it is malformed, or has a compressed name.
    i = _DNS_HEADER
    while i < len(query) and i < _DNS_HEADER + _NAME:
        n = query[i]
        if n > 63:
            return None
        i += 1 + n
        if not n:
            return i + 4 if i + 4 <= len(query) else None
    return None


def answer(query, address):
    """Returns the response to the bytes of a query: `address`, 4 bytes, for an IPv4 address, nothing for other types.
    None: it is no such query."""
    if not _DNS_HEADER < len(query) <= _LONGEST_QUERY or query[2] & 0xF8 or query[4:6] != b"\0\1":
        return None  # a response, another operation, or not one question
    end = _question_end(query)
    if not end:
        return None
    found = query[end - 4 : end] == bytes((0, _A, 0, _IN))
    head = query[:2] + bytes((0x84 | query[2] & 1, 0, 0, 1, 0, found, 0, 0, 0, 0))
    # The time to live is 0: the name means something else as soon as the set-up ends.
    record = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + address if found else b""
    return head + query[_DNS_HEADER:end] + record


def _listen(kind, host, port):
    sock = socket.socket(socket.AF_INET, kind)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(socket.getaddrinfo(host, port)[0][-1])
    sock.setblocking(False)
    return sock


class Names:
    """The name server at `address` (text), for which all names stand."""

    def __init__(self, poll, address, port):
        self._sock = _listen(socket.SOCK_DGRAM, address, port)
        self._address = bytes([int(n) for n in address.split(".")])
        poll.register(self._sock, select.POLLIN)

    def step(self):
        try:
            query, sender = self._sock.recvfrom(_PIECE)
            response = answer(query, self._address)
            if response:
                self._sock.sendto(response, sender)
        except OSError:
            pass  # nothing came, or the client has gone


class _Connection:
    """One that was accepted. `data`: its first bytes, when they have come."""

    data = b""

    def __init__(self, sock, address):
        self.sock = sock
        self.address = address


class Pages:
    """The web server. `site` has check(request), which raises BadRequest or returns where to go instead;
    form(request), a parser for its body (see setup_http), which may raise ValueError; respond(request, fields, error),
    which returns (status, location, pieces of the page); sent(), called when a page was sent. most: connections that
    wait beside the one that is served."""

    def __init__(self, poll, port, site, most):
        self._poll = poll
        self._site = site
        self._most = most
        self._waiting = []
        self._served = []  # addresses, the one that was served last at the end
        self.listener = _listen(socket.SOCK_STREAM, "0.0.0.0", port)
        self.listener.listen(2)
        self.sock = None
        poll.register(self.listener, select.POLLIN)

    def step(self):
        self._accept()
        for waiting in list(self._waiting):
            self._look(waiting)
        while self.sock or self._choose():
            self._serve()
            if self.sock:
                break  # it takes longer

    # --- who is served ---

    def _accept(self):
        try:
            sock, peer = self.listener.accept()
        except OSError:
            return  # nobody has come
        sock.setblocking(False)
        self._poll.register(sock, select.POLLIN)
        # On the unix port of MicroPython the peer is a struct sockaddr_in.
        self._waiting.append(_Connection(sock, peer[0] if isinstance(peer, tuple) else peer[4:8]))
        if len(self._waiting) > self._most:
            self._drop(max(self._waiting, key=self._turn))

    def _drop(self, waiting):
        self._waiting.remove(waiting)
        if not waiting.data:
            self._poll.unregister(waiting.sock)
        waiting.sock.close()

    def _look(self, waiting):
        if waiting.data:
            return
        try:
            waiting.data = waiting.sock.recv(_PIECE)
        except OSError as e:
            if _would_wait(e):
                return
        if waiting.data:
            self._poll.unregister(waiting.sock)  # until it is its turn
        else:
            self._drop(waiting)

    def _turn(self, waiting):
        # The lowest is served next, the highest is dropped if too many wait: one connection of each address before a
        # second one of any; then who was not served for the longest time; then who has sent something and, of those
        # that have not, the newest, which may be about to.
        at = self._waiting.index(waiting)
        address = waiting.address
        before = [other for other in self._waiting[:at] if other.address == address]
        served = self._served.index(address) if address in self._served else -1
        return len(before), served, not waiting.data, at if waiting.data else -at

    def _choose(self):
        # Browsers open connections that they may not use: those that are silent hold up nobody.
        ready = [waiting for waiting in self._waiting if waiting.data]
        if not ready:
            return False
        chosen = min(ready, key=self._turn)
        self._waiting.remove(chosen)
        if chosen.address in self._served:
            self._served.remove(chosen.address)
        self._served = self._served[1 - _REMEMBERED :] + [chosen.address]
        self.sock = chosen.sock
        self._data = chosen.data
        self._poll.register(self.sock, select.POLLIN)
        self._began = ticks_ms()
        self._request = Request()
        self._left = -1  # bytes of the body; -1: the head is not complete
        self._refused = 0  # status of HTTP, if it is refused whatever its body is
        self._form = self._response = self._error = None
        self._piece = b""
        return True

    # --- the one that is served ---

    def _serve(self):
        try:
            for _ in range(_PIECES):
                if self._response:
                    self._send()
                else:
                    self._receive()
                if not self.sock:
                    return
        except OSError as e:
            if not _would_wait(e):
                self.close_served()
        except MemoryError:
            self.close_served()
        others = any([waiting.data for waiting in self._waiting])
        if self.sock and ticks_diff(ticks_ms(), self._began) > (_SHORT_MS if others else _LIMIT_MS):
            self.close_served()

    def close_served(self):
        if self.sock:
            self._poll.unregister(self.sock)
            self.sock.close()
            self.sock = self._form = self._request = self._response = None

    def _receive(self):
        data = self._data or self.sock.recv(_PIECE)
        self._data = b""
        if not data:
            self.close_served()
            return
        try:
            if self._left < 0:
                data = self._request.receive(data)
                if data is None:
                    return
                self._begin_body()
            self._take(data[: self._left])
        except BadRequest as e:
            self._respond(e.status, None, ())

    def _begin_body(self):
        self._left = self._request.length
        try:
            place = self._site.check(self._request)
        except BadRequest as e:
            # Told when the body has come: closing before resets the connection, and the browser may see that alone.
            self._refused = e.status
            return
        if place:
            self._left = 0
            self._respond(302, place, ())
        elif self._request.method == "POST":
            self._try(lambda: self._site.form(self._request))

    def _take(self, data):
        if self._response:
            return
        self._left -= len(data)
        if self._form and data:
            self._try(lambda: self._form.receive(data) or self._form)
        if self._refused:
            if not self._left:
                self._respond(self._refused, None, ())
        elif not self._left:
            fields = None
            if self._form:
                self._try(lambda: self._form.close())
                fields = self._form
            self._respond(*self._site.respond(self._request, fields, self._error))

    def _try(self, step):
        # What is wrong with a form is told when its whole body has come: browsers do not read a response before.
        try:
            self._form = step()
        except (ValueError, OSError) as e:
            self._form = None
            self._error = str(e)

    def _respond(self, status, location, pieces):
        self._piece = head(status, location)
        self._response = iter(pieces)
        self._poll.modify(self.sock, select.POLLOUT)

    def _send(self):
        while True:
            while self._piece:
                n = self.sock.send(self._piece)
                self._piece = self._piece[n:]
            try:
                self._piece = next(self._response)
            except StopIteration:
                break
        self.close_served()
        self._site.sent()


def _would_wait(error):
    from errno import EAGAIN

    return error.errno == EAGAIN

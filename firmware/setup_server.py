# The sockets of the set-up: a web server with one client at a time, and a name server. Nothing waits.

import select
import socket

from inflight.compat import const, ticks_diff, ticks_ms
from setup_dns import answer
from setup_http import BadRequest, Request, head

_PIECE = const(512)
_LIMIT_MS = const(20_000)  # for a request and its response


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


class Pages:
    """The web server. `site` has check(request), which raises BadRequest or returns where to go instead;
    form(request), a parser for its body (see setup_form), which may raise ValueError; respond(request, fields, error),
    which returns (status, location, pieces of the page); sent(), called when a page was sent."""

    def __init__(self, poll, port, site):
        self._poll = poll
        self._site = site
        self._listener = _listen(socket.SOCK_STREAM, "0.0.0.0", port)
        self._listener.listen(2)
        self._sock = None
        poll.register(self._listener, select.POLLIN)

    def step(self):
        if not self._sock or self._silent:
            self._accept()
        if not self._sock:
            return
        try:
            if ticks_diff(ticks_ms(), self._began) > _LIMIT_MS:
                self._close()
            elif self._response:
                self._send()
            else:
                self._receive()
        except OSError as e:
            if not _would_wait(e):
                self._close()
        except MemoryError:
            self._close()

    def _accept(self):
        try:
            sock = self._listener.accept()[0]
        except OSError:
            return  # nobody is waiting
        # Browsers open connections that they may not use: one that is silent gives way to the next.
        self._close()
        sock.setblocking(False)
        self._poll.register(sock, select.POLLIN)
        self._sock = sock
        self._silent = True
        self._began = ticks_ms()
        self._request = Request()
        self._left = -1  # bytes of the body; -1: the head is not complete
        self._form = self._response = self._error = None
        self._piece = b""

    def _close(self):
        if self._sock:
            self._poll.unregister(self._sock)
            self._sock.close()
            self._sock = self._form = self._request = self._response = None

    def _receive(self):
        data = self._sock.recv(_PIECE)
        if not data:
            self._close()
            return
        self._silent = False
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
        place = self._site.check(self._request)
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
        if not self._left:
            fields = None
            if self._form:
                self._try(lambda: self._form.finish())
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
        self._poll.modify(self._sock, select.POLLOUT)

    def _send(self):
        while True:
            while self._piece:
                n = self._sock.send(self._piece)
                self._piece = self._piece[n:]
            try:
                self._piece = next(self._response)
            except StopIteration:
                break
        self._close()
        self._site.sent()


def _would_wait(error):
    from errno import EAGAIN

    return error.errno == EAGAIN

"""The HTTP server of the console. It answers GET alone, and changes nothing."""

import http.server
import socket
import socketserver
import urllib.parse

from inflight_tools.fleet.console.access import is_of_another_site

HTML, TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
_TIMEOUT_S = 30  # of a connection: for each read and write


class Refused(Exception):
    """status, text: of the answer."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Console(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """pages: {path: function of the query, a dict, that returns (content type, text), or raises Refused}. access: an
    access.Access. Raises OSError if it cannot listen at (host, port)."""

    daemon_threads = True

    def __init__(self, host, port, pages, access):
        self.pages, self.access = pages, access
        if ":" in host:
            self.address_family = socket.AF_INET6
        super().__init__((host, port), _Handler)

    def server_bind(self):  # without the look-up of a name that HTTPServer makes
        socketserver.TCPServer.server_bind(self)
        host, self.server_port = self.socket.getsockname()[:2]
        self.server_name = str(host)

    def handle_error(self, request, client_address):
        """A viewer that goes away is no news."""


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Console
    timeout = _TIMEOUT_S
    server_version, sys_version = "inflight", ""

    def log_message(self, *_):
        pass

    def do_GET(self):
        if is_of_another_site(self.headers):  # before a query runs
            self._answer(403, TEXT, "Pages of other sites may not ask.\n")
            return
        if not self.server.access.permits(self.client_address[0], self.headers):
            self._answer(401 if self.server.access.asks else 403, TEXT, "You may not read this.\n")
            return
        parts = urllib.parse.urlsplit(self.path)
        page = self.server.pages.get(parts.path)
        try:
            if page is None:
                raise Refused(404, "There is no such page.")
            kind, text = page(dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True, errors="replace")))
        except Refused as e:
            self._answer(e.status, TEXT, f"{e}\n")
        else:
            self._answer(200, kind, text)

    do_HEAD = do_GET

    def _answer(self, status, kind, text):
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "same-origin")
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="inflight", charset="UTF-8"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

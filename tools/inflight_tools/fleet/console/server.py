"""The HTTP server of the console. It answers GET, and POST where there is something to change."""

import hmac
import http.server
import socket
import socketserver
import urllib.parse

from inflight_tools.fleet.console.access import is_of_another_site
from inflight_tools.output import first_line, log
from inflight_tools.visible import visible

HTML, TEXT, JSON = "text/html; charset=utf-8", "text/plain; charset=utf-8", "application/json"
_TIMEOUT_S = 30  # of a connection: for each read and write
_LONGEST = 65_535  # bytes of a form
_SAME = "same-origin"  # what a browser says of a form of this console; a program that is no browser says nothing


def _fields(text):
    return dict(urllib.parse.parse_qsl(text, keep_blank_values=True, errors="replace"))


class Refused(Exception):
    """status, text: of the answer."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


class Console(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """pages: {path: function of the query, a dict, that returns (content type, text), or raises Refused; a third is the
    name of a file that a browser makes of it}. access: an access.Access. changes: as pages, functions of the query and
    of a form's fields, which have to have `token`. Raises OSError if it cannot listen at (host, port)."""

    daemon_threads = True

    def __init__(self, host, port, pages, access, changes=None, token=None):
        self.pages, self.access, self.changes, self.token = pages, access, changes, token
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
        self._serve(self.server.pages, is_of_another_site(self.headers))

    do_HEAD = do_GET

    def do_POST(self):
        if not self.server.changes:
            self._answer(501, TEXT, "This console only reads.\n")
            return
        # Not even a person who follows a link of another site changes anything.
        self._serve(self.server.changes, self.headers.get("Sec-Fetch-Site", _SAME) != _SAME)

    def _form(self):
        """The fields of the form that is posted, a dict."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit() and len(length) < 6 and int(length) <= _LONGEST):
            raise Refused(413, f"A form has {_LONGEST} bytes at most.")
        body = self.rfile.read(int(length))
        if len(body) < int(length):  # fields that it lacks would be cleared
            raise Refused(400, "This form is incomplete: send it again.")
        fields = _fields(body.decode("latin-1"))
        if not hmac.compare_digest(fields.get("token", "").encode(), self.server.token.encode()):
            raise Refused(403, "This form is not of this console, or is old: load its page again.")
        return fields

    def _serve(self, pages, is_of_another):
        if is_of_another:  # before a query runs
            self._answer(403, TEXT, "Pages of other sites may not ask.\n")
            return
        if not self.server.access.permits(self.client_address[0], self.headers):
            self._answer(401 if self.server.access.asks else 403, TEXT, "You may not read this.\n")
            return
        try:
            parts = urllib.parse.urlsplit(self.path)
            page = pages.get(parts.path)
            if page is None:
                raise Refused(404, "There is no such page.")
            forms = [self._form()] if self.command == "POST" else []
            answer = 200, *page(_fields(parts.query), *forms)
        except Refused as e:
            answer = e.status, TEXT, f"{e}\n"
        except Exception as e:  # whatever a device, a viewer or a file has: who asks gets an answer
            log(visible(f"{self.command} {self.path}: {type(e).__name__}: {first_line(e)}"))
            answer = 500, TEXT, f"This page cannot be made: {first_line(e)}\n"
        self._answer(*answer)

    def _answer(self, status, kind, text, file=None):
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        if file:
            self.send_header("Content-Disposition", f"attachment; filename*=UTF-8''{urllib.parse.quote(file)}")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("X-Frame-Options", "DENY")
        self.send_header("Referrer-Policy", "same-origin")
        if status == 503:
            self.send_header("Refresh", "2")  # seconds until a browser asks again
        if status == 401:
            self.send_header("WWW-Authenticate", 'Basic realm="inflight", charset="UTF-8"')
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

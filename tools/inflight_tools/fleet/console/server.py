"""The HTTP server of the console. It answers GET alone, and changes nothing."""

import http.server
import socket
import socketserver
import urllib.parse

from deltalake.exceptions import DeltaError
from duckdb import Error as QueryError
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from inflight_tools.fleet.console.access import is_of_another_site
from inflight_tools.fleet.delta import WrongTables
from inflight_tools.fleet.monitoring.metrics import FleetMetrics
from inflight_tools.fleet.report import render, render_device
from inflight_tools.fleet.report.collectors import behind
from inflight_tools.fleet.where import sentences
from inflight_tools.output import first_line

_HTML, _TEXT = "text/html; charset=utf-8", "text/plain; charset=utf-8"
_TIMEOUT_S = 30  # of a connection: for each read and write
_MOST = (1 << 32) - 1  # of numbers and epochs


class _Refused(Exception):
    """status, text: of the answer."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def _whole(query, name):
    text = query.get(name, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MOST)) and int(text) <= _MOST):
        raise _Refused(400, f"{name} is a whole number, from 0 to {_MOST}")
    return int(text)


def _way(found):
    if not found:
        return None
    return ((), found["unknown"]) if "unknown" in found else (list(sentences.rows(found)), sentences.sentence(found))


class Console(socketserver.ThreadingMixIn, http.server.HTTPServer):
    """live: a live.Live. access: an access.Access. Raises OSError if it cannot listen at (host, port)."""

    daemon_threads = True

    def __init__(self, host, port, live, access):
        self.live, self.access = live, access
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
            self._answer(403, _TEXT, "Pages of other sites may not ask.\n")
            return
        if not self.server.access.permits(self.client_address[0], self.headers):
            self._answer(401 if self.server.access.asks else 403, _TEXT, "You may not read this.\n")
            return
        parts = urllib.parse.urlsplit(self.path)
        page = self._PAGES.get(parts.path)
        try:
            if page is None:
                raise _Refused(404, "There is no such page.")
            query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True, errors="replace"))
            kind, text = page(self, query)
        except _Refused as e:
            self._answer(e.status, _TEXT, f"{e}\n")
        except (WrongTables, DeltaError, QueryError, OSError, ValueError) as e:
            self._answer(503, _TEXT, f"The tables cannot be read: {first_line(e)}\n")
        else:
            self._answer(200, kind, text)

    do_HEAD = do_GET

    def _fleet(self, _):
        fresh, facts = self.server.live.fleet()
        return _HTML, render(facts, fresh)

    def _device(self, query):
        name = query.get("name", "")
        fresh, facts = self.server.live.device(name, _whole(query, "message"), _whole(query, "epoch"))
        if facts is None:
            raise _Refused(404, "No message has arrived from a device of this name.")
        return _HTML, render_device(
            facts, fresh, {name: query.get(name) for name in ("message", "epoch")}, _way(facts["way"])
        )

    def _fresh(self, _):
        return _TEXT, self.server.live.fresh()

    def _metrics(self, _):
        registry = CollectorRegistry()
        _, facts = self.server.live.fleet()
        registry.register(FleetMetrics(facts, len(behind(facts))))
        return CONTENT_TYPE_LATEST, generate_latest(registry).decode()

    _PAGES = {"/": _fleet, "/device": _device, "/fresh": _fresh, "/metrics": _metrics}

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

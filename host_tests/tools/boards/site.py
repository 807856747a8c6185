"""A download site for firmware on this machine. Tests choose its answers."""

import contextlib
import http.server
import threading


class _Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        status, content, promised = self.server.answer
        self.send_response(status)
        self.send_header("Content-Length", str(promised))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *words):
        pass


@contextlib.contextmanager
def serving(content, monkeypatch):
    """A server that has `content` for every path, and is the site that firmware is downloaded from."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Site) as server:
        server.asked, server.answer = [], (200, content, len(content))
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        monkeypatch.setenv("INFLIGHT_FIRMWARE_MIRROR", f"http://127.0.0.1:{server.server_port}/files/")
        monkeypatch.setenv("no_proxy", "*")
        yield server
        server.shutdown()

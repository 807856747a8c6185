"""Web servers on this machine: of a folder, and a download site for firmware, whose answers tests choose."""

import contextlib
import functools
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
def running(handler):
    """A server whose requests `handler` answers; `url`: its address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=[0.01], daemon=True).start()
        yield server
        server.shutdown()


@contextlib.contextmanager
def of_folder(path):
    """The address of a server of the files in folder `path`."""
    with running(functools.partial(http.server.SimpleHTTPRequestHandler, directory=path)) as server:
        yield server.url


@contextlib.contextmanager
def serving(content, monkeypatch):
    """A server that has `content` for every path, and is the site that firmware is downloaded from."""
    with running(_Site) as server:
        server.asked, server.answer = [], (200, content, len(content))
        monkeypatch.setenv("INFLIGHT_FIRMWARE_MIRROR", f"{server.url}/files/")
        monkeypatch.setenv("no_proxy", "*")
        yield server

"""A console that a test asks. It imports nothing that reads tables."""

import threading
import urllib.error
import urllib.parse
import urllib.request

from inflight_tools.fleet.console.server import Console


class Asked:
    """A console with these pages. more: other arguments of it."""

    def __init__(self, pages, access, **more):
        self._console = Console("127.0.0.1", 0, pages, access, **more)
        self.url = f"http://127.0.0.1:{self._console.server_port}"
        threading.Thread(target=self._console.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def get(self, path="/", **headers):
        """(status, headers, text) of an answer."""
        return self._ask(urllib.request.Request(self.url + path, headers=headers))

    def post(self, path, fields, **headers):
        """(status, headers, text) of the answer to a form."""
        body = urllib.parse.urlencode(fields).encode()
        return self._ask(urllib.request.Request(self.url + path, body, headers))

    def _ask(self, request):
        try:
            with urllib.request.urlopen(request, timeout=240) as answer:
                return answer.status, answer.headers, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read().decode()

    def device(self, name, **query):
        return self.get("/device?" + urllib.parse.urlencode({"name": name, **query}))

    def close(self):
        self._console.shutdown()
        self._console.server_close()

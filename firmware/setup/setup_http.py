# The head of an HTTP request, and of a response. No I/O.

from inflight.compat import const

_HEAD = const(3_072)  # bytes of a request before its body, at most
_BODY = const(1_048_576)  # what is too long for the form is read and dropped, so that the page can tell it
_STATUS = {
    200: "OK",
    302: "Found",
    303: "See Other",
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    411: "Length Required",
    413: "Content Too Large",
    431: "Request Header Fields Too Large",
}
_KEPT = ("host", "origin", "content-type", "content-length", "transfer-encoding")


class BadRequest(ValueError):
    """The request cannot be answered in another way than with the `status` of HTTP."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


class Request:
    """The head of a request: `method`, `path` without a query, `headers` that matter by their names in lower case,
    `length` of the body. They are there when receive() has returned bytes."""

    method = path = ""
    length = 0

    def __init__(self):
        self._head = b""
        self.headers = {}

    def receive(self, data):
        """Takes bytes. Returns None until the head is complete, then the first bytes of the body. Raises BadRequest."""
        data = self._head + data
        end = data.find(b"\r\n\r\n")
        if (end if end >= 0 else len(data)) > _HEAD:
            raise BadRequest(431)
        if end < 0:
            self._head = data
            return None
        self._head = b""
        try:
            self._parse(data[:end].decode())
        except UnicodeError:
            raise BadRequest(400)
        return data[end + 4 :]

    def _parse(self, head):
        lines = head.split("\r\n")
        words = lines.pop(0).split(" ")
        if len(words) != 3 or words[1][:1] != "/" or words[2][:7] != "HTTP/1.":
            raise BadRequest(400)
        self.method = words[0]
        self.path = words[1].split("?")[0]
        for line in lines:
            name, colon, value = line.partition(":")
            name = name.lower()
            if name in _KEPT:
                if name in self.headers:
                    raise BadRequest(400)  # no browser does that
                self.headers[name] = value.strip()
        self.length = self._body_length()

    def _body_length(self):
        if self.headers.get("transfer-encoding"):
            raise BadRequest(411)
        length = self.headers.get("content-length", "0")
        if not 0 < len(length) < 10 or not length.encode().isdigit():
            raise BadRequest(400)
        if int(length) > _BODY:
            raise BadRequest(413)
        return int(length)


def head(status, location=None):
    """Returns the head of a response, bytes. Its body, a page, ends with the connection."""
    lines = ["HTTP/1.1 %d %s" % (status, _STATUS[status])]
    if location:
        lines.append("Location: " + location)
    lines.append("Content-Type: text/html; charset=utf-8")
    lines.append("Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; form-action 'self'")
    lines.append("X-Frame-Options: DENY")
    lines.append("Cache-Control: no-store")
    lines.append("Connection: close\r\n\r\n")
    return "\r\n".join(lines).encode()

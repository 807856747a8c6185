# HTTP: the head of a request, the body of a form as it arrives, the head of a response; text for HTML. No I/O.

from inflight.compat import const

_HEAD = const(3_072)  # bytes of a request before its body, at most
_BODY = const(1_048_576)  # what is too long for the form is read and dropped, so that the page can tell it
# Of a form. Each part is bounded.
_VALUE = const(256)  # bytes of a field, at most
_FIELDS = const(32)
_PART_HEAD = const(1_024)
_ENCODED = const(2_048)  # bytes of a body without files, at most
_BOUNDARY = const(70)  # characters, RFC 2046
# What a multipart body is in.
_DATA = const(0)
_DELIMITER = const(1)
_HEADERS = const(2)
_END = const(3)
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
    location = "Location: %s\r\n" % location if location else ""
    return (
        "HTTP/1.1 %d %s\r\n%sContent-Type: text/html; charset=utf-8\r\n"
        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; script-src "
        "'unsafe-hashes' 'sha256-tb880RPTNAkhH8brgDqHu8l6ZyAxyIBY2b+tmLi0uOk='\r\n"  # it shows the key
        "X-Frame-Options: DENY\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
        % (status, _STATUS[status], location)
    ).encode()


def escape(text):
    """Text for HTML."""
    for character, entity in ("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;"):
        text = text.replace(character, entity)
    return text


# --- forms: multipart/form-data (RFC 7578), in which a file is handed on in pieces, or
# application/x-www-form-urlencoded ---


def form(content_type, open_file):
    """Returns the parser for a body of this content type: receive(bytes), then close(), which returns {name: text};
    both raise ValueError. open_file(name) returns where the pieces of a file go: write(bytes), close(). Raises
    ValueError."""
    kind, _, more = content_type.partition(";")
    kind = kind.strip().lower()
    if kind == "application/x-www-form-urlencoded":
        return _Encoded()
    boundary = _parameter(more, "boundary")
    if kind != "multipart/form-data" or not boundary or len(boundary) > _BOUNDARY:
        raise ValueError("this is no form")
    return _Multipart(boundary.encode(), open_file)


def _parameter(text, name):
    # The value of a parameter in a header; None if it is not there. The first one counts.
    for part in text.split(";"):
        key, equals, value = part.strip().partition("=")
        if equals and key.lower() == name:
            return value[1:-1] if value[:1] == '"' and value[-1:] == '"' else value
    return None


def _unquoted(data):
    pieces = data.replace(b"+", b" ").split(b"%")
    text = pieces.pop(0)
    for piece in pieces:
        text += bytes((int(str(piece[:2], "ascii"), 16),)) + piece[2:]
    return text.decode()


class _Encoded:
    def __init__(self):
        self._body = b""

    def receive(self, data):
        self._body += data
        if len(self._body) > _ENCODED:
            raise ValueError("the form is too long")

    def close(self):
        fields = {}
        for pair in self._body.split(b"&"):
            name, _, value = pair.partition(b"=")
            if len(value) > 3 * _VALUE or len(fields) >= _FIELDS:
                raise ValueError("the form is too long")
            if name:
                fields[_unquoted(name)] = _unquoted(value)
        return fields


class _Multipart:
    def __init__(self, boundary, open_file):
        self._delimiter = b"\r\n--" + boundary
        self._open_file = open_file
        self._rest = b"\r\n"  # the first delimiter has no line end of its own
        self._within = _DATA
        self._steps = (self._data, self._after_delimiter, self._part_head)
        self._name = self._value = self._file = None
        self._fields = {}

    def receive(self, data):
        self._rest += data
        while self._within != _END and self._steps[self._within]():
            pass
        if self._within == _END:
            self._rest = b""

    def close(self):
        if self._within != _END:
            raise ValueError("the form is incomplete")
        return {name: value.decode() for name, value in self._fields.items()}

    # Each step returns False if it needs more bytes.

    def _data(self):
        at = self._rest.find(self._delimiter)
        if at < 0:
            at = len(self._rest) - len(self._delimiter) + 1
            if at > 0:
                self._take(self._rest[:at])
                self._rest = self._rest[at:]
            return False
        self._take(self._rest[:at])
        self._rest = self._rest[at + len(self._delimiter) :]
        self._end_part()
        self._within = _DELIMITER
        return True

    def _after_delimiter(self):
        if len(self._rest) < 2:
            return False
        end, self._rest = self._rest[:2], self._rest[2:]
        if end not in (b"\r\n", b"--"):
            raise ValueError("the form is damaged")
        self._within = _HEADERS if end == b"\r\n" else _END
        return True

    def _part_head(self):
        at = self._rest.find(b"\r\n\r\n")
        if (at if at >= 0 else len(self._rest)) > _PART_HEAD:
            raise ValueError("the form is damaged")
        if at < 0:
            return False
        for line in self._rest[:at].decode().split("\r\n"):
            key, _, value = line.partition(":")
            if key.lower() == "content-disposition":
                self._begin_part(_parameter(value, "name"), _parameter(value, "filename"))
        self._rest = self._rest[at + 4 :]
        self._within = _DATA
        return True

    def _begin_part(self, name, file):
        if not name or self._name or len(self._fields) >= _FIELDS:
            raise ValueError("the form is damaged")
        self._name = name
        if file:
            self._file = self._open_file(name)
        self._value = b""

    def _take(self, data):
        if self._file:
            self._file.write(data)
        elif self._name:
            self._value += data
            if len(self._value) > _VALUE:
                raise ValueError("%s: %d bytes at most" % (self._name, _VALUE))

    def _end_part(self):
        if self._file:
            self._file.close()
        elif self._name:
            self._fields[self._name] = self._value
        self._name = self._value = self._file = None

# Texts of others in error texts, in the log and on the console.

import sys

import log
from harness import SkipTest, eq
from inflight.errors import printable
from inflight.net.websocket import _Answer
from inflight.session.refused import ConnectRefused, Disconnected, PublishRefused
from telemetry import describe

RUNTIMES = "cpython micropython-x86"
MORE_RUNTIMES = "micropython-x64"

HIDDEN = (
    "\0\t\n\v\f\r\x1b\x1c\x7f"  # C0
    "\x80\x85\x9b\x9f"  # C1
    "\xad\u061c\u180e\u200b\u200e\u200f\u2028\u2029\u202a\u202e\u2060\u2066\u2069\ufeff\ufff9\uffff"
    "\U000e0001\U000e007f\U0010ffff"
)
SEEN = "Grüße, Ελλάδα, Привет, 日本, 😀: ~\\x"


def escaped(c):
    n = ord(c)
    return ("\\x%02x" if n < 256 else "\\u%04x" if n < 65536 else "\\U%08x") % n


def test_what_is_hidden_is_written_as_an_escape():
    """Each control, mark of direction and line separator; others stay."""
    eq(printable(SEEN), SEEN)
    for c in HIDDEN:
        eq(printable("a" + c + "b"), "a" + escaped(c) + "b")
        eq(printable(printable(c)), printable(c))


def test_bytes():
    """Also those that are not UTF-8."""
    eq(printable(b"404 \xff\xc3\xbc\x1b[2J\n"), "404 \\xff\\xc3\\xbc\\x1b[2J\\x0a")
    eq(printable(b""), "")


def test_as_the_tools():
    """What a terminal acts on is hidden by both."""
    if sys.implementation.name == "micropython":
        raise SkipTest("the tools run on CPython")
    import unicodedata

    from inflight_tools.visible import visible

    for n in list(range(0x30000)) + list(range(0xE0000, 0xE1000)) + [0xF0000, 0x10FFFD]:  # no others are assigned
        c = chr(n)
        kind = unicodedata.category(c)
        direction = unicodedata.bidirectional(c)
        if kind in ("Cc", "Zl", "Zp", "Cs", "Co") or direction in ("RLE", "LRO", "RLO", "PDF", "RLI"):
            assert printable(c) == escaped(c), hex(n)
            assert len(visible(c)) > 1, hex(n)


def test_no_error_text_has_lines_of_a_broker():
    """A reason string, and the status line of a server."""
    for error in (
        ConnectRefused(0x87, "no\nERROR all is lost\x1b[2J"),
        Disconnected(0x8B, "no\nERROR all is lost\x1b[2J"),
        Disconnected(0x9C, "", "no\nERROR all is lost\x1b[2J"),
        PublishRefused(0x87, 1, 1, "no\nERROR all is lost\x1b[2J"),
    ):
        assert "no\\x0aERROR all is lost\\x1b[2J" in describe(error), describe(error)
        assert "\n" not in str(error) and "\x1b" not in str(error)
    answer = _Answer(b"key", True)
    try:
        for c in b"HTTP/1.1 404 no\rERROR\x1b[2J\xff\n":
            answer.take(c)
    except OSError as e:
        error = e
    eq(error.args[1], "the server answered HTTP/1.1 404 no\\x0dERROR\\x1b[2J\\xff")


def test_the_log_has_a_line_for_each_entry():
    """Also if a command's name has a line feed."""
    log.text = ""
    log.say("command x\n1 error all is lost\u2028\x1b[2J", log.INFO)
    lines = log.text.split("\n")
    eq(len(lines), 2)
    assert lines[0].endswith("command x\\x0a1 error all is lost\\u2028\\x1b[2J"), lines
    log.text = ""

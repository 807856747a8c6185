# Topic names and filters: validation and matching.

from harness import eq, raises
from inflight.arguments import encode, encode_name
from inflight.client.subscriptions import matches
from inflight.session.subscribe import encode_filter

RUNTIMES = "cpython micropython-x64 micropython-x86"
MORE_RUNTIMES = "micropython-armhf micropython-wasm"


def test_encode():
    """[MQTT-1.5.3-1] [MQTT-1.5.3-3] [MQTT5-1.5.4-3] str and bytes become UTF-8 bytes; U+FEFF is an ordinary
    character."""
    for text, data in (
        ("a/b", b"a/b"),
        (b"a/b", b"a/b"),
        ("\u20ac\U0001f600", b"\xe2\x82\xac\xf0\x9f\x98\x80"),
        ("", b""),
        ("\ufeffa", b"\xef\xbb\xbfa"),
    ):
        eq(encode(text), data)


def test_encode_refuses():
    """[MQTT-1.5.3-1] [MQTT-1.5.3-2] [MQTT-3.1.3-4] [MQTT-3.1.3-10] [MQTT-3.1.3-11] [MQTT-3.8.3-1] [MQTT-4.7.3-2]
    [MQTT5-1.5.4-2] [MQTT5-4.7.3-2] Surrogates and ill-formed UTF-8; U+0000, control and non-characters; other types."""
    for texts in (
        (b"\xff", b"a\xc0\x80", b"\xed\xa0\x80", b"\xe2\x82", b"\xf4\x90\x80\x80"),
        ("\0", "a\0b", b"a/\0"),
        ("\x01", "a\x1f", "\x7f", "\x80", "\x9f", "\ufdd0", "\uffff"),
        (None, 5, ["a"], 1.5),
    ):
        for text in texts:
            for check in (encode, encode_name, encode_filter):
                raises(ValueError, check, text)


def test_longest():
    """[MQTT-4.7.3-3] [MQTT5-4.7.3-3] [MQTT31-23] 65535 bytes at levels 5 and 4, 32767 at level 3; bytes count, not
    characters."""
    text = "\u00e9" * 32767
    for check in (encode, encode_name, encode_filter):
        eq(len(check(text + "x")), 65535)
        raises(ValueError, check, text + "xx")
        raises(ValueError, check, "a" * 70000)
        eq(len(check("a" * 32767, 3)), 32767)
        raises(ValueError, check, "a" * 32768, 3)


def test_names():
    """[MQTT-4.7.3-1] [MQTT-3.3.2-2] [MQTT-4.7.1-1] [MQTT5-4.7.0-1] [MQTT5-4.7.3-1] At least one character, no
    wildcards."""
    for name in ("a", "/", "a//b", " ", "$SYS/x", "a b/\u00e9"):
        eq(encode_name(name), name.encode())
    for name in ("", "#", "+", "a/#", "a/+/b", "a+b", "x#"):
        raises(ValueError, encode_name, name)


def test_filters():
    """[MQTT-4.7.1-2] [MQTT-4.7.1-3] [MQTT-4.7.3-1] [MQTT5-4.7.1-1] [MQTT5-4.7.1-2] # is last and a whole level, + is a
    whole level."""
    for name in ("#", "+", "+/+", "/+", "/#", "a/#", "+/#", "a/+/b", "a//#", "/", "$SYS/#", "a/+"):
        eq(encode_filter(name), name.encode())
    for name in ("", "a#", "a/b#", "#/", "#/a", "a/#/b", "##", "a/##", "a+", "+a", "a/+b", "++", "a/b+/c", "+#", "#+"):
        raises(ValueError, encode_filter, name)


def test_shared_filters():
    """[MQTT5-4.8.2-1] [MQTT5-4.8.2-2] At level 5: a name of a character at least, without wildcards, then a filter. At
    level 4 a broker may have no shared subscriptions, and take such filters as they are."""
    for name in ("$share/g/a", "$share/g/+/b", "$share/g/#", "$share/g//", "$shared", "$sharex/a"):
        eq(encode_filter(name, 5), name.encode())
    for name in ("$share", "$share/", "$share/g", "$share/g/", "$share//a", "$share/+/a", "$share/#"):
        raises(ValueError, encode_filter, name, 5)
    eq(encode_filter("$share/g", 4), b"$share/g")


def match(pattern, name):
    """The result of matches(), the same at every offset of the name in its buffer."""
    pattern, name = pattern.encode(), name.encode()
    one = matches(pattern, name, 0, len(name))
    assert one in (True, False)
    for before, behind in ((b"x", b"y"), (b"a/", b"/b"), (b"/", b"/"), (b"#", b"#")):
        eq(matches(pattern, before + name + behind, len(before), len(before) + len(name)), one)
    return one


MATCHING = (
    ("sport/tennis/player1/#", "sport/tennis/player1"),
    ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon"),
    ("sport/#", "sport"),
    ("sport/tennis/+", "sport/tennis/player1"),
    ("sport/+", "sport/"),
    ("+/+", "/finance"),
    ("+/tennis/#", "sport/tennis/x/y"),
    ("$SYS/#", "$SYS"),
    ("$SYS/monitor/+", "$SYS/monitor/Clients"),
)
DIFFERENT = (
    ("sport/tennis/+", "sport/tennis/player1/ranking"),
    ("sport/+", "sport"),
    ("+", "/finance"),
    ("a/b/#", "a/bc"),
)


def test_matching():
    """[MQTT-4.7.1-2] [MQTT-4.7.1-3] # matches any number of levels and the parent; + matches exactly one, which may be
    empty. The examples of the standard."""
    for pattern, name in MATCHING:
        assert match(pattern, name), "%s should match %s" % (pattern, name)
    for pattern, name in DIFFERENT:
        assert not match(pattern, name), "%s should not match %s" % (pattern, name)


def test_dollar_topics():
    """[MQTT-4.7.2-1] [MQTT5-4.7.2-1] Wildcards in the first level do not match $ topics."""
    for pattern in ("#", "+", "+/monitor/Clients", "+/#", "+/+"):
        assert not match(pattern, "$SYS/monitor/Clients")
        assert not match(pattern, "$SYS")


def test_no_normalisation():
    """[MQTT-4.7.3-4] [MQTT5-4.7.3-4] Names are compared byte for byte: case, spaces, accents and slashes matter."""
    for pattern, name in (
        ("ACCOUNTS", "Accounts"),
        ("a b", "ab"),
        ("\u00e9", "e\u0301"),
        ("a/", "a"),
        ("/a", "a"),
        ("a//b", "a/b"),
        ("\ufeffa", "a"),
    ):
        assert not match(pattern, name)
        assert match(pattern, pattern)


def slowly(pattern, name):
    """Matching level by level, as the standard defines it."""
    if name[0] == "$" and pattern[0] in "+#":
        return False
    p, n = pattern.split("/"), name.split("/")
    for i, level in enumerate(p):
        if level == "#":
            return True
        if i >= len(n) or level not in ("+", n[i]):
            return False
    return len(p) == len(n)


def words(parts, depth):
    if not depth:
        return [""]
    out = []
    for rest in words(parts, depth - 1):
        for part in parts:
            out.append(part + "/" + rest if rest else part)
    return out


def test_matching_against_the_definition():
    """[MQTT-4.7.1-2] [MQTT-4.7.1-3] [MQTT-4.7.2-1] Every filter of up to three levels with every such name, anywhere in
    a buffer."""
    names = [n for d in (1, 2, 3) for n in words(["a", "ab", "", "$"], d) if n]
    filters = [f for d in (1, 2, 3) for f in words(["a", "", "+", "#"], d) if f]
    for f in filters:
        try:
            encode_filter(f)
        except ValueError:
            continue
        for n in names:
            eq((f, n, match(f, n)), (f, n, slowly(f, n)))

"""One delivery as a line of a landing file."""

import base64
import codecs
from json.encoder import encode_basestring_ascii as quote

_BOOL = ("false", "true")


def line(at, by, topic, qos, dup, retain, payload, most):
    """The line, bytes. `at`: ms since 1970. Of a payload longer than `most` bytes it contains the beginning, a mark,
    and the whole length: readers make a dead letter of it."""
    # Built by hand: json.dumps() of a dict takes twice as long, and this is done for each message.
    return (
        f'{{"at":{at},"by":{quote(by)},"topic":{quote(topic)},"qos":{qos},"dup":{_BOOL[dup]},"retain":{_BOOL[retain]},'
        f"{_content(payload, most)}}}\n"
    ).encode("ascii")


def _content(payload, most):
    cut = len(payload) > most
    note = f',"truncated":true,"length":{len(payload)}' if cut else ""
    part = payload[:most] if cut else payload
    try:
        text, _ = codecs.utf_8_decode(part, "strict", not cut)  # omits a character that was cut
    except UnicodeDecodeError:
        return f'"base64":"{base64.b64encode(part).decode()}"{note}'
    return f'"text":{quote(text)}{note}'

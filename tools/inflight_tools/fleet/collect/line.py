"""One received message as a line of a landing file."""

import base64
import codecs
from json.encoder import encode_basestring_ascii as quote

from .property_block import member

_BOOL = ("false", "true")


def line(at, by, topic, qos, dup, retain, payload, max_payload, block=b"", length=None):
    """The line as bytes. `at`: ms since 1970. A payload longer than `max_payload` bytes is cut and marked, with its
    whole length; readers make a dead letter of it. block: the properties of a message of level 5, see properties();
    without any the line is as at level 4. length: the whole length of the payload, if only its beginning is given."""
    # Built by hand because it runs for each message: json.dumps() of a dict takes twice as long.
    return (
        f'{{"at":{at},"by":{quote(by)},"topic":{quote(topic)},"qos":{qos},"dup":{_BOOL[dup]},"retain":{_BOOL[retain]},'
        f"{member(block) if block else ''}{_content(payload, max_payload, length or len(payload))}}}\n"
    ).encode("ascii")


def _content(payload, max_payload, length):
    cut = length > max_payload
    note = f',"truncated":true,"length":{length}' if cut else ""
    part = payload[:max_payload] if cut else payload
    try:
        text, _ = codecs.utf_8_decode(part, "strict", not cut)  # drops a character that the cut divides
    except UnicodeDecodeError:
        return f'"base64":"{base64.b64encode(part).decode()}"{note}'
    return f'"text":{quote(text)}{note}'

"""Texts from devices and brokers, made safe to show: whoever publishes them chooses their characters."""

import unicodedata

_INVISIBLE = ("C", "Zl", "Zp")  # controls, direction marks, surrogates, unassigned; line and paragraph separators


def visible(text: str) -> str:
    """`text` with invisible characters written as Python escapes: they could command a terminal, reverse or hide other
    characters, or be invalid UTF-8."""
    if text.isprintable():
        return text
    return "".join(ascii(c)[1:-1] if unicodedata.category(c).startswith(_INVISIBLE) else c for c in text)

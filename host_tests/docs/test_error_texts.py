"""The table of the texts of errors: its page is what its source says, and it has the texts that users see."""

import re

import pytest

from inflight import Client, FileFlash, Journal, OutboxFull, RamFlash, copy_journal
from tools import error_texts


def test_the_page_is_what_the_source_says():
    """Each text of the library has a row, and each row a text of the library."""
    assert error_texts.PAGE.read_text("utf-8") == error_texts.page(), "run .venv/bin/python -m tools.error_texts"


def fill():
    client = Client("broker.example", "attic-1", Journal(RamFlash(4, 1024)))
    while True:
        client.publish("attic/temperature", bytes(100), 1)


def copy():
    journal = Journal(RamFlash(4, 1024))
    Client("broker.example", "attic-1", journal).publish("a", "b", 1)
    copy_journal(journal, RamFlash(3, 1024))


def other_size(folder):
    (folder / "journal.bin").write_bytes(bytes(100))
    FileFlash(str(folder / "journal.bin"))


@pytest.mark.parametrize(
    "call",
    [
        lambda _: Client("mqtt://broker.example", "attic-1"),
        lambda _: Client("broker.example", "attic-1", keep_alive=3),
        lambda _: Client("broker.example", "attic-1", password="x"),
        lambda _: Client("broker.example", "attic-1", path="mqtt"),
        lambda _: Client("broker.example", "attic-1").publish("a", "b", 1),
        lambda _: Client("broker.example", "attic-1").publish("a", "b"),
        lambda _: Client("broker.example", "attic-1").subscribe("a", 3, print),
        lambda _: fill(),
        lambda _: copy(),
        other_size,
    ],
)
def test_a_text_that_a_user_sees_is_in_the_table(call, tmp_path):
    with pytest.raises((OSError, ValueError, TypeError, OutboxFull)) as raised:
        call(tmp_path)
    error = raised.value
    shown = error.args[1] if isinstance(error, OSError) else str(error)
    patterns = [".*".join(map(re.escape, text.split(error_texts.VALUE))) for text in error_texts.texts()]
    assert [text for text in patterns if text.strip(".*") and re.fullmatch(text, shown)], shown


@pytest.mark.parametrize(
    "change, problem",
    [
        (lambda text: text.replace('"no topic"', '"no such topic"'), "no row has ['no topic']"),
        (lambda text: text.replace('texts = ["not connected"', 'texts = ["no topic"'), "no row has ['not connected']"),
        (lambda text: text.replace('"no topic",', '"no topic", "topic",'), "two rows have ['topic']"),
        (lambda text: text.replace('"no topic",', '"no topic", "lost",'), "the library has no text ['lost']"),
        (lambda text: text.replace("\ndo = ", "\ndoes = ", 1), "has the fields"),
    ],
)
def test_a_wrong_source_is_refused(change, problem, tmp_path, monkeypatch):
    text = error_texts.SOURCE.read_text("utf-8")
    monkeypatch.setattr(error_texts, "SOURCE", tmp_path / "error-texts.toml")
    error_texts.SOURCE.write_text(change(text), "utf-8")
    with pytest.raises(ValueError, match=re.escape(problem)):
        error_texts.rows()

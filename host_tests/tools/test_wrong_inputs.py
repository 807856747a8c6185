"""Inputs that are wrong: what a person is told, in which no number of an error stands for its words."""

import pytest

from host_tests.tools.command import inflight
from inflight_tools.cache import write_atomic
from inflight_tools.fleet.spark import session
from inflight_tools.output import reason

YEARS = ("fleet", "compact", "--data", ".", "--keep-measurements", "2y")
COLLECT = ("fleet", "collect", "--landing", "landing", "--broker", "127.0.0.1:1")


@pytest.fixture
def here(tmp_path, monkeypatch, nobody):
    """An empty folder `dir`, a `file`, `data` without landing files, and a configuration. Nobody starts Spark here."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(session, "java_home", lambda: pytest.fail("Spark is started"))
    (tmp_path / "dir").mkdir()
    (tmp_path / "data/landing").mkdir(parents=True)
    (tmp_path / "file").write_text("no certificate\n")
    (tmp_path / "config.json").write_text('{"host": "127.0.0.1", "port": %d}' % nobody)
    return tmp_path


def told(*words):
    """(exit status, what was printed, without frames and line ends)."""
    done = inflight(*words)
    return done.exit_code, " ".join(done.output.replace("│", " ").split())


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        (COLLECT[:4], 2, "no broker: name one with --broker host or host:port, or with --config config.json"),
        ((*COLLECT, "--broker", "x:y"), 2, "--broker x:y: write a host, or host:port"),
        ((*COLLECT, "--root", "a/+"), 2, "--root a/+: the first levels of the devices' topics, without + and #"),
        ((*COLLECT, "--name", "a/b"), 2, "--name a/b: letters, digits"),
        ((*COLLECT, "--share", "a/b"), 2, "--share a/b: letters, digits"),
        ((*COLLECT, "--websocket", "mqtt"), 2, "a path begins with /"),
        ((*COLLECT, "--ca", "none"), 2, "Invalid value for '--ca'"),
        ((*COLLECT, "--ca", "file"), 1, "file: not a certificate in PEM or DER"),
        ((*COLLECT, "--cert", "file"), 2, "--cert with --ca: without it there is no TLS"),
        ((*COLLECT, "--ca", "file", "--key", "file"), 2, "--key goes with --cert"),
        ((*COLLECT, "--password-file", "dir"), 2, "Invalid value for '--password-file'"),
        (("fleet", "collect", "--broker", "x", "--landing", "file"), 2, "Invalid value for '--landing'"),
        (("fleet", "collect", "--broker", "x", "--landing", "s3://b/x"), 2, "s3://b/x: name a folder of this computer"),
        (("fleet", "upload", "s3://b/x", "--landing", "s3://b/y"), 2, "s3://b/y: name a folder of this computer"),
        (("fleet", "report", "--data", "none"), 1, "there is no folder none: name that of"),
        (("fleet", "export", "out", "--data", "none"), 1, "there is no folder none: name that of"),
        (("fleet", "where", "attic", "1", "--data", "none"), 1, "there is no folder none: name that of"),
        (("fleet", "compact", "--data", "none"), 1, "none/tables: name the tables with"),
        (("fleet", "compact", "--data", "."), 1, "/tables: name the tables with --data or --of"),
        (("fleet", "compact", "--of", "none"), 1, "there is no folder none: name the tables with"),
        (("fleet", "tables", "--once", "--data", "none"), 1, "none/landing: name that of"),
        (("fleet", "tables", "--once", "--landing", "none"), 1, "there is no folder none: name that of"),
        (("fleet", "tables", "--once", "--landing", "file:///none"), 1, "no folder file:///none: name that of"),
        (("fleet", "compact", "--of", "file:///none"), 1, "there is no folder file:///none: name the tables with"),
        (("fleet", "tables", "--once", "--data", "data", "--master", "x"), 2, "--master x: local[*], spark://host"),
        (("fleet", "tables", "--once", "--data", "data", "--conf", "x"), 2, "--conf needs name=value"),
        (("fleet", "compact", "--of", "dir"), 1, "there is no folder dir/raw: there are no tables yet"),
        (("fleet", "compact", "--data", ".", "--keep-measurements", "0d"), 2, "as in 90d, or of years, as in 2y"),
        (("fleet", "compact", "--data", ".", "--keep-minutes", "2y"), 2, "needs --keep-measurements, and a time at"),
        ((*YEARS, "--keep-minutes", "700d"), 2, "needs --keep-measurements, and a time at least as long"),
        (("fleet", "report", "--of", "none", "--landing", "."), 1, "none: name another one with --of"),
        (("fleet", "where", "attic", "1", "--landing", "none", "--of", "."), 1, "name another one with --landing"),
        (("fleet", "report", "--data", "file"), 2, "Invalid value for '--data'"),
        (("board", "deploy", "--board", "esp32", "--port", "file"), 1, "file is no serial port"),
        (("board", "deploy", "--board", "esp32", "--port", "x", "--ca", "file"), 1, "name it with --config"),
        (("board", "monitor", "--port", "x", "--key", "file"), 1, "name it with --config"),
        (("keys", "--signing-key", "dir"), 1, "dir is a folder: name the key's file"),
        (("installer", "--serve", "99999"), 2, "Invalid value for '--serve'"),
        (("device", "list"), 2, "no broker: name one with --broker host or host:port, or with --config config.json"),
        (("device", "list", "--config", "config.json"), 1, "this computer does not reach the broker at 127.0.0.1:"),
        (("device", "update", "attic", "none", "--broker", "x"), 2, "Invalid value for 'release'"),
        (("rollout",), 1, "this computer does not reach the broker at 127.0.0.1:"),
        (("rollout", "--ca", "file"), 1, "config.json: tls_ca is missing"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_is_wrong_is_told(here, words, status, text):
    found = told(*words)
    assert found[0] == status and text in found[1] and "Errno" not in found[1], found
    assert not (here / "none").exists() and not (here / "out").exists()


def test_a_password_without_a_user(here, monkeypatch):
    monkeypatch.setenv("INFLIGHT_PASSWORD", "the right one")
    status, text = told(*COLLECT)
    assert status == 2 and "a password, but no user: name it with --user" in text and "the right one" not in text


def test_a_file_that_cannot_be_replaced_is_named_and_nothing_is_left(here):
    before = sorted(here.iterdir())
    with pytest.raises(OSError) as raised:
        write_atomic(here / "dir", "text")
    assert reason(raised.value) == f"{here / 'dir'}: Is a directory"
    assert sorted(here.iterdir()) == before


@pytest.mark.parametrize(
    "command, name",
    [*(("tables --once", name) for name in ("a*", "a?b", "a[b]", "{a,b}", "a\\b", "a:b")), ("compact", "a*")]
    + [("pipeline --broker x", "a*")],
)
def test_a_folder_whose_name_is_a_pattern_for_spark(here, name, command):
    """Its tables would stay empty, without an error."""
    (here / name / "landing").mkdir(parents=True)
    (here / name / "tables").mkdir()
    status, text = told("fleet", *command.split(), "--data", name)
    assert status == 1 and "Spark reads " in text and "give another folder, or a symbolic link to it" in text

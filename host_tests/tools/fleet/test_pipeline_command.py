"""What `inflight fleet pipeline` shows of collector and Spark. Both are stand-ins."""

import io
import json
import os
import signal
import subprocess
import sys
import threading

import pytest
import trustme
from rich.console import Console
from typer.main import get_command
from typer.testing import CliRunner

from inflight_tools.fleet import commands
from inflight_tools.fleet.pipeline import together

FIGURES = {"messages": 4500, "messages_s": 12.4, "connected": True, "lag_ms": {"mean": 4.2, "max": 9}, "batch": 88.0}
BATCHES = [{"batch": n, "deliveries": 1000, "seconds": 1.5} for n in (11, 12)]
# Each writes its reports, says a sentence, and waits for SIGTERM.
CHILD = """
import sys, threading
for line in sys.argv[1:]:
    print(line, flush=True)
print("connected to the broker [b]", file=sys.stderr, flush=True)
threading.Event().wait()
"""


def child(*reports):
    return [sys.executable, "-c", CHILD, *(one if isinstance(one, str) else json.dumps(one) for one in reports)]


def shown(commands, ready, waiting=lambda: 1, terminal=True):
    """What is on the terminal when ready(text of the last line) was true, and the children were stopped."""
    file, stopping = io.StringIO(), threading.Event()
    console = Console(file=file, force_terminal=terminal, width=200, color_system=None)

    class Watched(together.Status):
        def line(self):
            found = super().line()
            if ready(found.plain):
                stopping.set()
            return found

    status = together.run(commands, Watched(waiting), console, stopping)
    return status, file.getvalue()


def test_one_line_tells_how_collector_and_tables_do():
    commands = [child(FIGURES, "words of Java"), child(*BATCHES)]
    status, text = shown(commands, lambda line: "4,500" in line and "batch 12" in line)
    assert status == 15  # SIGTERM, which the stand-ins do not handle
    last = text.replace("\r", "\n").split("\n")[-2]
    assert "connected: 4,500 messages, 12/s, lag 4 ms" in last
    assert "batch 12: 1.5 s, 2,000 deliveries in all" in last and "1 landing file waits" in last
    assert text.count("connected to the broker [b]") == 2 and "words of Java" in text


@pytest.mark.parametrize("files", [0, 2])
def test_before_the_first_reports(files):
    _, text = shown([child(), child()], lambda line: True, waiting=lambda: files)
    assert f"collector starts · no batch yet · {files} landing files wait" in text


def started(monkeypatch, folder, *options):
    """The options that `pipeline` hands on to (`collect`, `tables`), {name: value}."""
    given = []
    monkeypatch.setattr(together, "run", lambda commands, *_: given.extend(commands) or 0)
    words = ["pipeline", "--broker", "x", "--data", folder, *options]
    done = CliRunner().invoke(commands.app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    known = get_command(commands.app).commands
    for _, *words in (line[line.index("fleet") :] for line in given):
        name, *words = words
        found = known[name].make_context(name, words).params  # or it raises
        yield {option: value for option, value in found.items() if value is not None}


def test_the_collector_gets_what_it_needs_for_its_broker(monkeypatch, tmp_path):
    files = {name: tmp_path / name for name in ("config", "ca", "cert", "key", "password_file")}
    authority = trustme.CA()
    own = authority.issue_cert("collector")
    authority.cert_pem.write_to_path(files["ca"])
    own.cert_chain_pems[0].write_to_path(files["cert"])
    own.private_key_pem.write_to_path(files["key"])
    fields = {"host": "h", "root": "home", "tls_ca": "/ca.der", "tls_cert": "/cert.der", "tls_key": "/key.der"}
    files["config"].write_text(json.dumps(fields))
    files["password_file"].write_text("secret")
    others = {"websocket": "/mqtt", "user": "me", "protocol_level": 5}
    options = [(f"--{name.replace('_', '-')}", value) for name, value in (files | others).items()]
    collect, tables = started(monkeypatch, tmp_path, *(word for option in options for word in option))
    assert collect.items() >= (files | others | {"broker": "x"}).items()
    assert not tables.keys() & {*files, *others}
    assert collect["root"] == tables["root"] == "home"
    assert "secret" not in f"{collect} {tables}"  # all users see the words of a command


def test_nothing_starts_without_a_broker(monkeypatch, tmp_path):
    """Spark takes half a minute to start."""
    monkeypatch.setattr(together, "run", lambda *_: pytest.fail("started"))
    done = CliRunner().invoke(commands.app, ["pipeline", "--data", str(tmp_path)])
    assert done.exit_code == 2 and "no broker: name one with --broker" in done.output


def test_what_is_not_given_is_left_to_the_collector(monkeypatch, tmp_path):
    collect, _ = started(monkeypatch, tmp_path)
    assert not collect.keys() & {"config", "ca", "cert", "key", "websocket", "user", "password_file", "protocol_level"}


@pytest.mark.parametrize("terminal", [True, False])
def test_the_other_one_is_ended_when_one_fails(capfd, terminal):
    """Without a terminal everything is a plain line."""
    failing = [sys.executable, "-c", "import sys; print('a report'); sys.exit('no broker')"]
    status, text = shown([failing, child()], lambda line: False, terminal=terminal)
    told = capfd.readouterr()
    assert status == 15 and "no broker" in (text if terminal else told.err)
    assert terminal or (text, told.out) == ("", "a report\n")


# As `inflight fleet pipeline` does it, with stand-ins that tell their process numbers.
PIPELINE = r"""
import signal, sys
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # also where these tests run under nohup
from rich.console import Console
from inflight_tools.fleet.pipeline import together
from inflight_tools.signals import stop_event
tell = "os.write(1, b'%d\\n' % os.getpid())"  # in one piece: what two processes print may mix
child = [sys.executable, "-c", f"import os, threading; {tell}; threading.Event().wait()"]
with stop_event() as stopping:
    together.run([child, child], together.Status(int), Console(), stopping)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="Windows has no SIGHUP")
def test_nothing_goes_on_when_the_terminal_is_closed():
    program = subprocess.Popen([sys.executable, "-c", PIPELINE], stdout=subprocess.PIPE, text=True)
    children = [int(program.stdout.readline()) for _ in range(2)]
    try:
        program.send_signal(signal.SIGHUP)
        assert program.communicate(timeout=240) == ("", None)  # the end of what the children write, too
        assert program.returncode == 0
    except subprocess.TimeoutExpired:
        for child in children:
            os.kill(child, signal.SIGKILL)
        raise


# The signal comes while the program holds the lock of the event that it waits for.
WITHIN_WAIT = """
import os, signal, threading
from inflight_tools.signals import stop_event

def enter(condition):
    condition.acquire()
    if not sent:
        sent.append(os.kill(os.getpid(), signal.SIGTERM))

sent = []
with stop_event() as stopping:
    before, threading.Condition.__enter__ = threading.Condition.__enter__, enter
    stopping.wait()
    threading.Condition.__enter__ = before
"""


def test_a_signal_within_a_wait_ends_it():
    assert subprocess.run([sys.executable, "-c", WITHIN_WAIT], timeout=240).returncode == 0


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("9464", ("127.0.0.1:9464", "127.0.0.1:9465")),
        ("0.0.0.0:9464", ("0.0.0.0:9464", "0.0.0.0:9465")),
        ("[::1]:9464", ("::1:9464", "::1:9465")),
        ("0", ("127.0.0.1:0", "127.0.0.1:0")),  # any free ports
    ],
)
def test_intervals_and_places_of_metrics(monkeypatch, tmp_path, text, places):
    collect, tables = started(monkeypatch, tmp_path, "--metrics", text, "--age", 2, "--every", 3)
    assert (collect["age"], tables["every"]) == (2.0, 3.0)
    assert (collect["metrics"], tables["metrics"]) == places

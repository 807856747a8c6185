"""A reader who tries what he has read: code runs as a process, with a broker that answers it."""

import ast
import builtins
import contextlib
import subprocess
import threading
from pathlib import Path

from dev import device_run
from dev.reference.kinds import SUBSCRIBE
from host_tests.broker import Automatic

LIMIT_S = 240
_RUN = Path(__file__).parent / "device_scripts/run_block.py"


class World(Automatic):
    """A broker that hands out `commands` ({filter: payload}), or a message for each filter that was subscribed to."""

    def __init__(self, commands=None):
        self._commands = commands or {}
        self._changed = threading.Condition()
        self._asked = set()
        super().__init__()

    def _handle(self, p):
        super()._handle(p)
        if p.kind == SUBSCRIBE:
            for name, qos in p.filters:
                if name not in self._asked:
                    self._asked.add(name)
                    topic = name.replace("+", "x").replace("#", "x")
                    self.give(topic, self._commands.get(name, b"1"), qos)
        self.tell()

    def tell(self):
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, condition):
        """Until condition() holds, at most for LIMIT_S. Returns whether it does."""
        with self._changed:
            return self._changed.wait_for(condition, LIMIT_S)

    @property
    def content(self):
        """True if every message that it handed out was acknowledged, and those of the client are completed."""
        sessions = self.sessions.values()
        return not (self._gifts or any(s.flight or s.queue or s.unreleased for s in sessions))


def expected_names(text):
    """Names that a program uses and does not define."""
    tree = ast.parse(text)
    made = set(dir(builtins))
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            made.add(node.name)
        elif isinstance(node, ast.arg):
            made.add(node.arg)
        elif isinstance(node, ast.alias):
            made.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            made.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            made.add(node.id)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return sorted(used - made)


@contextlib.contextmanager
def running(runtime, folder, broker, text):
    """A program as a process in `folder`; broker.tell() is called when it ends."""
    script = folder / "block.py"
    script.write_text(text)
    env = device_run.environment(device_run.LIB, _RUN)
    process = subprocess.Popen(
        [*runtime.command("400k"), str(_RUN), str(broker.port), str(script), *expected_names(text)],
        cwd=folder,
        env={**env, "INFLIGHT_HOME": str(folder), "INFLIGHT_DEVICE_ID": "attic-1"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output = []

    def read():
        output.extend(process.stdout)
        process.wait()
        broker.tell()

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    try:
        yield process, output
    finally:
        process.kill()
        reading.join(LIMIT_S)
        process.stdout.close()


def try_out(runtime, folder, broker, text, done=None):
    """Runs a program until it ends, or, if it never does, until done(): by default until the broker has nothing more to
    wait for. Returns (what it printed, exit status, None if it had not ended)."""
    endless = "while True" in text or "async for" in text
    with running(runtime, folder, broker, text) as (process, output):

        def is_done():
            if process.poll() is not None:
                return True
            if not endless:
                return False
            if done:
                return done()
            return broker.content and ("publish(" not in text or broker.arrived) and broker.sessions

        ended_well = broker.wait_for(is_done)
        status = process.poll()
    printed = "".join(output)
    assert ended_well, "did not happen in %d s:\n%s" % (LIMIT_S, printed)
    assert "Traceback" not in printed, printed
    return printed, status

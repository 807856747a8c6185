"""Runs code blocks and examples as processes, with a broker that sends them messages."""

import ast
import builtins
import contextlib
import subprocess
import threading
from pathlib import Path

from host_tests.broker import Automatic
from tools.reference.kinds import SUBSCRIBE
from tools.runtimes import device_run

LIMIT_S = 240
_RUN = Path(__file__).parent / "device_scripts/run_block.py"


class ReplyingBroker(Automatic):
    """A broker that publishes a message for each subscribed filter. `commands`: {filter: payload}; default: "1"."""

    def __init__(self, commands=None):
        self._commands = commands or {}
        self._changed = threading.Condition()
        self._asked = set()
        super().__init__()

    def packet_received(self, p):
        super().packet_received(p)
        if p.kind == SUBSCRIBE:
            for name, qos in p.filters:
                if name not in self._asked:
                    self._asked.add(name)
                    topic = name.replace("+", "x").replace("#", "x")
                    self.give(topic, self._commands.get(name, b"1"), qos)
        self.notify()

    def notify(self):
        with self._changed:
            self._changed.notify_all()

    def wait_for(self, condition):
        """Waits until condition() is true, at most for LIMIT_S. Returns whether it is."""
        with self._changed:
            return self._changed.wait_for(condition, LIMIT_S)

    @property
    def idle(self):
        """Whether all messages in both directions are acknowledged."""
        sessions = self.sessions.values()
        return not (self._gifts or any(s.flight or s.queue or s.unreleased for s in sessions))


def expected_names(text):
    """The names that a program uses but does not define."""
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
    """Runs a program as a process in `folder`. Calls broker.notify() when it ends."""
    script = folder / "block.py"
    script.write_text(text)
    env = device_run.environment(runtime, _RUN, device_run.CHECKOUT / "lib")  # its sources, as somebody copies them
    process = subprocess.Popen(
        [*runtime.command("800k"), str(_RUN), str(broker.port), str(script), *expected_names(text)],
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
        broker.notify()

    reading = threading.Thread(target=read, daemon=True)
    reading.start()
    try:
        yield process, output
    finally:
        process.kill()
        reading.join(LIMIT_S)
        process.stdout.close()


def run_program(runtime, folder, broker, text, done=None):
    """Runs a program until it ends; an endless one until done() is true, by default until the broker is idle. Returns
    (output, exit status); the status is None if the program has not ended."""
    endless = "while True" in text or "async for" in text
    with running(runtime, folder, broker, text) as (process, output):

        def is_done():
            if process.poll() is not None:
                return True
            if not endless:
                return False
            if done:
                return done()
            return broker.idle and ("publish(" not in text or broker.arrived) and broker.sessions

        succeeded = broker.wait_for(is_done)
        status = process.poll()
    printed = "".join(output)
    assert succeeded, "did not happen in %d s:\n%s" % (LIMIT_S, printed)
    assert "Traceback" not in printed, printed
    return printed, status

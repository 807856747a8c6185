"""A copy of the working tree in which tests run with and without a mutant."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

HANG_S = 600  # tests that a mutant names: one that makes them wait for ever is seen, too
_TEST_S = 120  # of one test in pytest's own process
_ONE = re.compile(r"^(?:FAILED|ERROR) ([^ \[]+(?:\[.*?\])?)(?: - |$)", re.M)
_NO_TESTS = 4, 5  # exit statuses of pytest: no such file or test; none was selected


@dataclass
class Result:
    """What pytest said. failed: the first test that failed, "" if none did; missing: a named test does not exist."""

    failed: str = ""
    missing: bool = False
    output: str = ""


class Tree:
    """A clone of the git checkout `root` with its uncommitted changes, in `folder`; `root` is only read."""

    def __init__(self, root, folder):
        self.folder = Path(folder)
        self._clock = 0
        self._passed = set()
        self._process = None
        _git(root, "clone", "-q", "--shared", str(root), str(folder))
        for name in _git(root, "ls-files", "-z", "--modified", "--others", "--exclude-standard").split("\0"):
            if name and (root / name).is_file():
                (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, self.folder / name)
        for name in _git(root, "ls-files", "-z", "--deleted").split("\0"):
            if name:
                (self.folder / name).unlink(missing_ok=True)
        if (root / ".venv").exists():
            (self.folder / ".venv").symlink_to(root / ".venv")

    def seen_by(self, mutant, tests, limit=HANG_S):
        """Result of the tests with the mutant applied; limit: seconds after which they hang, None: no one knows.
        ValueError if the test that fails also fails without it."""
        changed = mutant.apply(self.folder)
        file = self.folder / mutant.file
        original = file.read_bytes()
        try:
            self._write(file, changed.encode())
            result = self.run(tests, limit)
        finally:
            self._write(file, original)
        if result.failed and result.failed not in self._passed:
            plain = self.run([result.failed] if result.failed != "hang" else tests, limit)
            if plain.failed or plain.missing:
                raise ValueError(f"{result.failed} fails without a mutant, too:\n{plain.output[-2000:]}")
            self._passed.add(result.failed)
        return result

    def run(self, tests, limit=None):
        """Result of pytest with these files or tests, until the first one fails."""
        options = ["-q", "-x", "-n", "0", "-p", "no:cacheprovider", "--tb=line", f"--timeout={_TEST_S}"]
        command = [sys.executable, "-m", "pytest", *options, *tests]
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("INFLIGHT_", "PYTEST_"))}
        with subprocess.Popen(
            command,
            cwd=self.folder,
            env=ours | {"PYTHONPATH": "", "COLUMNS": "1000"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            self._process = process
            try:
                output = process.communicate(timeout=limit)[0].decode(errors="replace")
            except subprocess.TimeoutExpired:
                return Result("hang")
            finally:
                self.stop()
        if process.returncode in _NO_TESTS:
            return Result(missing=True, output=output)
        found = _ONE.search(output)
        if process.returncode and not found:
            raise RuntimeError(f"pytest ended with status {process.returncode}:\n{output[-2000:]}")
        return Result(found[1] if process.returncode else "", output=output)

    def stop(self):
        """Ends the tests that run, with all processes that they started in their group."""
        if self._process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _write(self, file, content):
        """Python takes a compiled module for that of a source with the same second and size: each write has its own."""
        file.write_bytes(content)
        self._clock += 10
        os.utime(file, (self._clock, self._clock))


def _git(root, *words):
    done = subprocess.run(["git", "-C", str(root), *words], check=True, capture_output=True, text=True)
    return done.stdout

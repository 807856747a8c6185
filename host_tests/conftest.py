"""Collects device/**/test_*.py once per runtime: one subprocess per file and runtime, one pytest item per function."""

import functools
import gc
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from host_tests.absent import interpreter
from tools import runtimes
from tools.peers.daemon import held_port
from tools.peers.mosquitto import Mosquitto, unavailable
from tools.runtimes import device_run

DEVICE = Path(__file__).parent / "device"
# Where a test file runs by `make test`, unless it says otherwise by a line like this at its top. With INFLIGHT_TOOLS=1
# it runs where its line `MORE_RUNTIMES = "..."` says, too. The other runtimes run by `make test-everywhere`.
RUNTIMES = "cpython micropython-x64 micropython-x86"
# Files with the same line `WORKER = "browser"` run on one worker, one test after the other: they share a slow fixture,
# or wait more than they compute. In conftest.py it counts for all files beside it. So does a file with a fixture of its
# own for all its tests. Those of the worker "first" take as long as all others together: they start first, and go
# before.
_FIRST = "first"
_OF_THE_FILE = re.compile(r'^@pytest\.fixture\(scope="module"', re.M)
_IN_MEMORY = Path("/dev/shm")  # Linux: where thousands of small files and syncs cost no disk
_ROOM = 8 << 30  # bytes that it needs, several times what the tests write
_NICE = 5  # of the workers that run others
RESULT = re.compile(r"^(ok|FAIL|skip) (\w+|\*)(?:: (.*))?$")


@pytest.fixture(params=runtimes.NAMES)
def runtime(request):
    """Each available interpreter."""
    return interpreter(request.param)


@pytest.fixture(autouse=True)
def signals_are_left_alone():
    """A handler that a test left would keep every process that is forked later from ending."""
    numbers = signal.SIGINT, signal.SIGTERM
    before = [signal.getsignal(number) for number in numbers]
    yield
    assert [signal.getsignal(number) for number in numbers] == before, "a signal's handler has been left behind"


@pytest.fixture
def nobody(request):
    """A loopback port that refuses connections."""
    return held_port(request.node)


@pytest.fixture(scope="session")
def chromium(tmp_path_factory):
    from tools.peers.chromium import Chromium  # few workers need it

    with Chromium(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def browser(chromium):
    """Headless Chromium, which the tests of the worker "browser" share. A test's pages are closed at its end."""
    yield chromium
    for target in chromium.call("Target.getTargets")["targetInfos"]:
        if target["type"] == "page" and target["url"] != "about:blank":  # of which one stays: without any it would end
            chromium.call("Target.closeTarget", targetId=target["targetId"])
    chromium.events.clear()


@pytest.fixture
def mosquitto(tmp_path):
    """mosquitto(line, ...) starts one with these lines in its configuration. Where there is none, skips the test."""
    if unavailable():
        pytest.skip(unavailable())
    started = []

    def start(*lines):
        started.append(Mosquitto(tmp_path / f"mosquitto{len(started)}", *lines))
        return started[-1].start()

    yield start
    for broker in started:
        broker.kill()


@pytest.fixture
def broker(mosquitto):
    """The broker of a test, where no folder has another one."""
    return mosquitto()


def pytest_configure(config):
    if "TMPDIR" not in os.environ and _IN_MEMORY.is_mount() and shutil.disk_usage(_IN_MEMORY).free > _ROOM:
        os.environ["TMPDIR"] = tempfile.tempdir = str(_IN_MEMORY)
    # Processes started by a test import from this checkout, whatever their working directory.
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, config.getini("pythonpath")))
    # Some environments forbid it; then each worker and each process would compile the same modules again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    os.environ.setdefault("SOURCE_DATE_EPOCH", str(int(time.time())))  # what is built has its day, and midnight passes
    config.addinivalue_line("markers", "long(variable): it runs if that is in the environment")


def pytest_collection_modifyitems(config, items):
    """Long tests start first, so that no worker is left alone with one at the end. Tests for which the environment
    variable is not set are deselected, not skipped: the summary stays short."""
    for item in items:
        if _is_left_out(item.path, runtime_of(item.name)):
            item.add_marker(pytest.mark.long("INFLIGHT_EVERYWHERE"))
    config.hook.pytest_deselected(items=[item for item in items if not _is_asked_for(item)])
    items[:] = sorted(filter(_is_asked_for, items), key=_weight, reverse=True)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Thousands of tests stay to the end: no collection of garbage has to go through them, while they are made or
    later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_xdist_make_scheduler(config, log):
    """Tests that share a slow fixture run on one worker, otherwise each worker would create it again. Not done by the
    marker xdist_group: pytest-xdist 3.8 does not see it under pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling  # imported only if there are workers

    class Sharing(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = config.rootpath / nodeid.split("::")[0]
            if DEVICE in file.parents:  # one file on one runtime
                return str(file) + nodeid[nodeid.rfind("[") :]
            return worker_of(file) or nodeid

    config.option.loadscopereorder = False  # otherwise the largest groups start first, not the slowest
    return Sharing(config, log)


def _weight(item):
    """(whether it is of the first; the test's own time-out in seconds, 0 if it has none; 2 if its file has a worker, 1
    if it is emulated)"""
    asked, worker = item.get_closest_marker("timeout"), worker_of(item.path)
    slow = 2 if worker else 1 if runtime_of(item.name) == "micropython-armhf" else 0
    return worker == _FIRST, asked.args[0] if asked else 0, slow


def pytest_runtest_setup(item):
    random.seed(item.nodeid)  # the jitter of clients is the same in each run
    if "PYTEST_XDIST_WORKER" in os.environ and os.nice(0) < _NICE and worker_of(item.path) != _FIRST:
        os.nice(_NICE)


@functools.cache
def said(file, name, default=""):
    """What the line `NAME = "..."` in a test file says; the default if there is none."""
    found = re.search(rf'^{name} = "(.*)"', file.read_text(), re.M)
    return found[1] if found else default


@functools.cache
def worker_of(file):
    """The worker that a file shares with others, or that its folder does, or that it has for itself; "" if each test
    may run on any."""
    beside = file.with_name("conftest.py")
    named = said(file, "WORKER") or (said(beside, "WORKER") if beside.exists() else "")
    return named or (str(file) if _OF_THE_FILE.search(file.read_text()) else "")


@functools.cache
def runtimes_of(file):
    """Names of the runtimes that `make test` runs a file on. UsageError if it names others than there are."""
    names = said(file, "RUNTIMES", RUNTIMES).split()
    if os.environ.get("INFLIGHT_TOOLS"):
        names += said(file, "MORE_RUNTIMES").split()
    unknown = set(names).difference(runtimes.DEVICE_NAMES)
    if unknown or not names:
        allowed = " ".join(runtimes.DEVICE_NAMES)
        raise pytest.UsageError(f"{file}: RUNTIMES names {' '.join(unknown) or 'nothing'}; there are {allowed}")
    return names


def runtime_of(name):
    """The runtime that a test's name, with its parameters, contains; None if the test has none."""
    return next((runtime for runtime in runtimes.DEVICE_NAMES if runtime in name), None)


def _is_asked_for(item):
    return all(os.environ.get(mark.args[0]) for mark in item.iter_markers("long"))


def _is_left_out(file, runtime):
    return runtime not in (None, "micropython-own", *runtimes_of(file))


def pytest_collect_file(file_path, parent):
    if DEVICE in file_path.parents and file_path.match("test_*.py"):
        return DeviceFile.from_parent(parent, path=file_path)
    return None


@pytest.hookimpl(wrapper=True)  # pytest's own collector must not import these files as well
def pytest_pycollect_makemodule(module_path, parent):
    module = yield
    return None if DEVICE in module_path.parents else module


class DeviceFile(pytest.File):
    def collect(self):
        for runtime in runtimes.runtimes():
            if _is_left_out(self.path, runtime.name) and not os.environ.get("INFLIGHT_EVERYWHERE"):
                continue  # made only to be deselected they would take each worker a second
            run = DeviceRun(self.path, runtime)
            for name in device_run.test_names(self.path):
                yield DeviceItem.from_parent(self, name=f"{name}[{runtime.name}]", test=name, run=run)


class DeviceRun:
    """One file on one runtime: runs when the first result is needed, then keeps the results."""

    def __init__(self, path, runtime):
        self.path, self.runtime = path, runtime
        self.results = None
        self.ending = ""

    def result(self, item):
        """(verdict, text) of one test; ("none", what was printed) when the run ended before it."""
        if self.results is None:
            chosen = [other.test for other in item.session.items if getattr(other, "run", None) is self]
            self.results = self._run(chosen)
        return self.results.get("*") or self.results.get(item.test) or ("none", self.ending)

    def _run(self, names):
        seconds = device_run.timeout_of(self.path)
        process = device_run.start(
            self.runtime, self.path, names, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL
        )
        output, status = device_run.wait(process, seconds)
        text = output.decode(errors="replace")
        reason = f"out of time ({seconds} s)" if status == 124 else f"the interpreter ended with status {status}"
        self.ending = f"{reason} before this test had a result; the last that it printed:\n{text[-4000:]}"
        return parse(text, names)


def parse(text, names):
    """Returns {test: (verdict, text)} from the harness's output; lines after FAIL are its traceback."""
    results, last = {}, None
    for line in text.splitlines():
        found = RESULT.match(line)
        if found and found[2] in (*names, "*"):
            last = found[2]
            results[last] = (found[1], [found[3] or ""])
        elif last:
            results[last][1].append(line)
    return {name: (verdict, "\n".join(lines)) for name, (verdict, lines) in results.items()}


class DeviceFailure(Exception):
    """The text is the runtime's output."""


class DeviceItem(pytest.Item):
    def __init__(self, *, test, run, **kwargs):
        super().__init__(**kwargs)
        self.test, self.run = test, run
        self.add_marker(pytest.mark.timeout(0))  # its subprocess has its own time-out

    def runtest(self):
        if self.run.runtime.reason:
            pytest.skip(f"{self.run.runtime.name} is unavailable: {self.run.runtime.reason}")
        verdict, text = self.run.result(self)
        if verdict == "skip":
            pytest.skip(text.splitlines()[0])
        if verdict != "ok":
            raise DeviceFailure(text.strip())

    def repr_failure(self, excinfo):
        if excinfo.errisinstance(DeviceFailure):
            return f"{self.run.runtime.name}, {self.path.name}, {self.test}:\n{excinfo.value}"
        return super().repr_failure(excinfo)

    def reportinfo(self):
        return self.path, None, self.name


def pytest_terminal_summary(terminalreporter):
    """Prints at how many points the power was cut."""
    passed = terminalreporter.stats.get("passed", ())
    recorded = [pair for report in passed for pair in report.user_properties]
    cuts = sum(n for name, n in recorded if name in ("cut points", "second cuts"))
    if cuts:
        terminalreporter.write_line(f"power was cut at {cuts} points: every program, every erase, bytes within")

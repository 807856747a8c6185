"""Collects device/**/test_*.py once per runtime: one subprocess per file and runtime, one pytest item per function."""

import gc
import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tools import runtimes
from tools.peers.mosquitto import Mosquitto, unavailable
from tools.runtimes import device_run

DEVICE = Path(__file__).parent / "device"
# Folders and files with a slow fixture.
_SHARED = (
    "fleet/spark",
    "fleet/report/test_browser",
    "boards/test_deploy_birth",
    "boards/test_rename",
    "inflight_tools/update/test_end_to_end",
    "maintainers/test_bench",
    "maintainers/test_release",
)
# They run one after the other, and take as long as all others together: they start first, and go before.
_LONGEST = ("fleet/spark",)
_NICE = 5  # of the workers that run others
# They take time and little processor: no two of them shall run at the same time.
_WAITING = ("security/test_hostile_brokers",)
# An emulated processor takes four times as long, so `make test` runs there only: bytes, numbers, the wire, the stack.
_ON_ARM = (
    "device/lib/test_corpus.",
    "device/lib/test_decoder5",
    "device/lib/test_flash",
    "device/lib/test_inbound",
    "device/lib/test_journal.",
    "device/lib/test_outbound",
    "device/lib/test_packet",
    "device/lib/test_properties",
    "device/lib/test_topic",
    "firmware/test_stack",
    "lib/test_aio_micropython",
    "lib/test_mosquitto",
)
# Each of their many cases is tried on other runtimes, and none depends on the version of MicroPython.
_NOT_ON_WASM = (
    "device/lib/test_corpus",
    "device/lib/test_journal_alloc",
    "device/lib/test_journal_damage",
    "device/lib/test_journal_failures",
    "device/lib/test_outbound",
    "device/lib/test_sent_properties",
    "device/lib/test_session_record",
)
RESULT = re.compile(r"^(ok|FAIL|skip) (\w+|\*)(?:: (.*))?$")


@pytest.fixture(params=runtimes.NAMES)
def runtime(request):
    """Each available interpreter."""
    found = runtimes.runtime(request.param)
    if found.reason:
        pytest.skip(f"{found.name} is unavailable: {found.reason}")
    return found


@pytest.fixture
def mosquitto(tmp_path):
    """mosquitto(line, ...) starts one with these lines in its configuration. Where there is none, skips the
    test."""
    if unavailable():
        pytest.skip(unavailable())
    started = []

    def start(*lines):
        started.append(Mosquitto(tmp_path / f"mosquitto{len(started)}", *lines))
        return started[-1].start()

    yield start
    for broker in started:
        broker.kill()


def pytest_configure(config):
    # Processes started by a test import from this checkout, whatever their working directory.
    os.environ["PYTHONPATH"] = os.pathsep.join(map(str, config.getini("pythonpath")))
    # Some environments forbid it; then each worker and each process would compile the same modules again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    config.addinivalue_line("markers", "long(variable): it takes minutes, and runs if that is in the environment")


def pytest_collection_modifyitems(config, items):
    """Long tests start first, so that no worker is left alone with one at the end; waiting ones run among the others.
    Tests for which the environment variable is not set are deselected, not skipped: the summary stays short."""
    config.hook.pytest_deselected(items=[item for item in items if not _is_asked_for(item)])
    items[:] = sorted(filter(_is_asked_for, items), key=_weight, reverse=True)
    items[:] = _spread([item for item in items if _names_one_of(_WAITING, item)], items)


def pytest_collection_finish():
    """Thousands of tests stay to the end: no collection of garbage has to go through them."""
    gc.freeze()


def pytest_xdist_make_scheduler(config, log):
    """Tests that share a slow fixture run on one worker, otherwise each worker would create it again. Not done by the
    marker xdist_group: pytest-xdist 3.8 does not see it under pytest 9.2."""
    from xdist.scheduler import LoadScopeScheduling  # imported only if there are workers

    class Sharing(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            path = nodeid.split("::")[0]
            if "/device/" in path:  # one file on one runtime
                return path + nodeid[nodeid.rfind("[") :]
            return next((shared for shared in _SHARED if shared in path), nodeid)

    config.option.loadscopereorder = False  # otherwise the largest groups start first, not the slowest
    return Sharing(config, log)


def _weight(item):
    """(whether it is of the longest; the test's own time-out in seconds, 0 if it has none; 2 if it shares a slow
    fixture, 1 if it is emulated)"""
    asked = item.get_closest_marker("timeout")
    slow = 2 if _names_one_of(_SHARED, item) else 1 if "armhf" in item.name else 0
    return _names_one_of(_LONGEST, item), asked.args[0] if asked else 0, slow


def pytest_runtest_setup(item):
    random.seed(item.nodeid)  # the jitter of clients is the same in each run
    if "PYTEST_XDIST_WORKER" in os.environ and os.nice(0) < _NICE and not _names_one_of(_LONGEST, item):
        os.nice(_NICE)


def _names_one_of(places, item):
    return any(place in item.nodeid for place in places)


def _spread(some, items):
    """The items, with `some` of them at equal distances in the first three quarters of them."""
    others = [item for item in items if item not in some]
    apart = len(others) * 3 // 4 // (len(some) or 1)
    for n, item in enumerate(some):
        others.insert(n * (apart + 1), item)
    return others


def _is_asked_for(item):
    long = item.get_closest_marker("long")
    variable = long.args[0] if long else "INFLIGHT_EVERYWHERE" if _is_left_out(item) else ""
    return not variable or bool(os.environ.get(variable))


def _is_left_out(item):
    if "wasm" in item.name:
        return _names_one_of(_NOT_ON_WASM, item)
    return "armhf" in item.name and not _names_one_of(_ON_ARM, item)


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

"""The pipeline behind the broker: collector, Spark and report, each a process that can be killed."""

import json
import os
import signal
import subprocess
import sys
import time

from inflight_tools.fleet.spark.landing import LandingFiles
from tools.demo.subscriber import number
from tools.peers import mosquitto

COLLECTOR = "collector-0"  # its name, and its user's

_FLEET = ("-m", "inflight_tools", "fleet")
_PATIENCE_S = 3600  # a batch takes Spark a second, but minutes on a loaded machine
# These Java processes run for a minute: full optimization would cost more time than it saves.
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class _Program:
    """A Python process. off() kills it with all processes that it has started."""

    def __init__(self, log, *words, out=None):
        """log: the file for its output. out: another file for its standard output."""
        self._log, self._out = log, out or log
        self._argv = [sys.executable, *map(str, words)]
        self.process = None
        self.kills = 0

    def on(self):
        with open(self._log, "ab") as log, open(self._out, "ab") as out:
            self.process = subprocess.Popen(
                self._argv, stdout=out, stderr=log, start_new_session=True, env=QUICK_JAVA | os.environ
            )

    def off(self):
        """Returns False if it had already exited, which is an error."""
        alive = self.process.poll() is None
        if alive:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.kills += 1
        self.process.wait()
        return alive

    def stop(self):
        """Ends it by SIGTERM."""
        self.process.terminate()
        self._end()

    def _end(self):
        """Waits until it exits. Raises RuntimeError if it fails, or has to be killed after a time-out."""
        try:
            status = self.process.wait(_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.off()
            status = f"no end in {_PATIENCE_S} s"
        if status:
            raise RuntimeError(f"{self._log.stem}: {status}\n{self.said()[-2000:]}")

    def run(self):
        self.on()
        self._end()

    def wait(self, condition):
        """Waits until condition() is true. Raises RuntimeError if the process ends before, or that takes too long."""
        end = time.monotonic() + _PATIENCE_S
        while not condition():
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError(f"{self._log.stem} ended, or hangs:\n{self.said()[-2000:]}")
            time.sleep(0.02)

    def wait_for(self, words):
        """The same, until its log contains these words."""
        self.wait(lambda: words in self.said())

    def said(self):
        return self._log.read_text(errors="replace") if self._log.exists() else ""


class Downstream:
    """A pipeline for the devices below the topic `root` at the broker on `port`, with its files in `folder`."""

    def __init__(self, folder, port, root):
        folder.mkdir(parents=True)
        self.folder, self.root = folder, root
        landing, broker = folder / "landing", f"127.0.0.1:{port}"
        landing.mkdir()  # Spark may be there before the collector
        secret = folder / "password"
        secret.write_text(mosquitto.password(COLLECTOR))
        login = ("--user", COLLECTOR, "--password-file", secret)
        place = ("--landing", landing, "--broker", broker, "--root", root)
        often = ("--age", 2, "--marker", 2)
        self.collector = _Program(folder / "collector.log", *_FLEET, "collect", *login, *place, *often)
        self._of = ("--data", folder, "--root", root)
        spark = (*_FLEET, "tables", *self._of, "--master", "local[2]", "--every", 2)
        self.spark = _Program(folder / "spark.log", *spark)

    def __enter__(self):
        self.collector.on()
        self.spark.on()
        try:
            self.collector.wait_for("connected to the broker")
            self.spark.wait_for("go into the tables")
        except RuntimeError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for program in (self.collector, self.spark):
            program.off()

    def landed(self):
        """(device, sequence number) of all messages that the collector has written."""
        places = "landing/*.ndjson", "landing/.*.spool", "tables/landed/**/*.ndjson"
        return set().union(*(_numbers(file) for place in places for file in self.folder.glob(place)))

    def finish(self):
        """Waits until Spark has processed all messages, kills it, and makes the report. Returns its facts; the page is
        report.html in the folder."""
        self.collector.stop()
        unread = LandingFiles(self.folder / "landing", self.folder / "tables").unread
        self.spark.wait(lambda: not unread())
        self.spark.off()
        facts = self.folder / "facts.json"
        page = (*_FLEET, "report", *self._of, "--grace", 0, "--json")
        _Program(self.folder / "report.log", *page, out=facts).run()
        return json.loads(facts.read_text())

    def rows(self, table):
        """All rows of a table, read without Spark: a list of dicts."""
        from deltalake import DeltaTable

        return DeltaTable(self.folder / "tables" / table).to_pyarrow_table().to_pylist()


def _numbers(file):
    try:
        lines = file.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:  # just renamed: found under its new name, at the latest by the next call
        return set()
    found = (number(line["topic"], line["text"]) for line in map(json.loads, lines))
    return {(device, seq) for device, _, seq in filter(None, found)}

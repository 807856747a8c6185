"""The pipeline behind the broker: collector, Spark and report, each a process that can be killed."""

import json
import os
import sys

from inflight_tools.fleet.spark.landing import LandingFiles
from tools.demo.subscriber import numbers
from tools.peers import mosquitto
from tools.peers.daemon import Program

COLLECTOR = "collector-0"  # its name, and its user's

_FLEET = ("-m", "inflight_tools", "fleet")
# These Java processes run for a minute: full optimization would cost more time than it saves.
QUICK_JAVA = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}


class _Program(Program):
    """A Python process."""

    group = True
    patience_s = 3600  # a batch takes Spark a second, but minutes on a loaded machine

    def __init__(self, log, *words, out=None):
        super().__init__(log, (sys.executable, *words), out)
        self.environ = QUICK_JAVA | os.environ

    def end(self):
        """RuntimeError if it fails, too."""
        if status := super().end():
            raise RuntimeError(f"{self.file.stem}: {status}\n{self.log()}")


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
        report = _Program(self.folder / "report.log", *page, out=facts)
        report.on()
        report.end()
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
    found = (one for line in map(json.loads, lines) for one in numbers(line["topic"], line["text"]))
    return {(device, seq) for device, _, seq in found}

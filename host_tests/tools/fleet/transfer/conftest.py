"""Fixtures: a folder in the place of a bucket, landing files, and both ways."""

import contextlib
import functools
import threading

import pytest

from host_tests.tools.command import inflight
from inflight_tools.fleet.transfer.download import Download
from inflight_tools.fleet.transfer.loop import Loop
from inflight_tools.fleet.transfer.objects import Objects
from inflight_tools.fleet.transfer.upload import Upload


class Way:
    """Landing files of `here`, a bucket at the URI `uri`, and the landing folder `there`."""

    def __init__(self, folder):
        self.here, self.bucket, self.there = folder / "here", folder / "bucket", folder / "there"
        self.uri = self.bucket.as_uri()
        self.here.mkdir()
        self.said = []

    def land(self, name, text="line\n"):
        (self.here / name).write_text(text)

    def side(self, name, keep=False):
        """An Upload or a Download, to be closed."""
        if name == "upload":
            return Upload(self.here, Objects(self.uri), keep)
        return Download(self.there, Objects(self.uri), keep, self.said.append)

    def move(self, name, keep=False):
        """Uploads or downloads what is there. Returns the Figures."""
        with contextlib.closing(self.side(name, keep)) as side:
            return self.once(side)

    def once(self, side):
        """Moves the files of an Upload or a Download that are there. Returns the Figures."""
        loop = Loop(side, self.said.append, lambda figures: None)
        loop.once(threading.Event())
        return loop.figures

    def arrived(self):
        """{name in the collector's folder: text}"""
        found = {path.name.partition(".")[0] + ".ndjson": path.read_text() for path in self.there.glob("*.ndjson")}
        assert len(found) == len(list(self.there.glob("*.ndjson")))
        return found


@pytest.fixture
def run_here():
    """run_here(word, ...) returns the finished command `inflight fleet ...`, which ran in this process."""
    return functools.partial(inflight, "fleet")


@pytest.fixture
def way(tmp_path):
    return Way(tmp_path)

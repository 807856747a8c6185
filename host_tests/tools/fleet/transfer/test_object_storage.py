"""Landing files, tables, report and `where` in a stand-in for S3: `make test-object-storage`.

What happens there is compared with the truth: nothing lost, nothing doubled, nothing half."""

import json
import random
import threading
import time

import pytest
from pyarrow.fs import FileSelector, LocalFileSystem, copy_files

from host_tests.processes import started
from host_tests.tools.fleet.collect.collecting import PATIENCE_S
from host_tests.tools.fleet.tables import Tables, landed
from host_tests.tools.fleet.transfer.storage import BUCKET, Cable, Command, Killer, Moto, arrow, settings
from host_tests.waiting import wait_for
from inflight_tools.fleet.transfer.names import is_whole
from tools.setup import object_storage

if object_storage.unavailable():
    pytest.skip(object_storage.unavailable(), allow_module_level=True)
pytestmark = pytest.mark.timeout(900)

COLLECTORS, FILES = ("c", "d"), 30
LARGE = 12_000_000  # bytes: several parts in S3
KILLS = 15  # of each command, at least


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with Moto(tmp_path_factory.mktemp("moto")) as server:
        arrow(server.port, allow_bucket_creation=True).create_dir(BUCKET)
        yield server


@pytest.fixture
def place(s3, request):
    """(file system, folder in it) of its own for each test."""
    return arrow(s3.port), f"{BUCKET}/{request.node.name}"


@pytest.fixture
def run(s3):
    """run(word, ...) starts a command, with S3 in its environment."""
    with started(Command, Command.kill) as start:
        yield lambda *words, port=s3.port, **more: start(*words, env=settings(port, **more))


def objects(place):
    """{name: path} of the landing files that are there."""
    files, folder = place
    found = files.get_file_info(FileSelector(folder, allow_not_found=True))
    return {one.base_name: one.path for one in found if one.is_file}


class Watcher(threading.Thread):
    """Reads each object as soon as it is there. `half`: those that were not whole."""

    def __init__(self, place):
        super().__init__()
        self._place, self._over = place, threading.Event()
        self.seen, self.half = set(), []

    def run(self):
        while not self._over.wait(0.01):
            for name in objects(self._place).keys() - self.seen:
                self._look(name)

    def _look(self, name):
        files, folder = self._place
        try:
            content = files.open_input_stream(f"{folder}/{name}").read()
        except FileNotFoundError:  # downloaded meanwhile
            return
        self.seen.add(name)
        if not is_whole(name, content):
            self.half.append(name)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self._over.set()
        self.join()


class Landing(threading.Thread):
    """Two collectors, which finish files one after the other. `landed`: {name: content}"""

    def __init__(self, folders, dice):
        super().__init__()
        self._folders, self._dice = folders, dice
        self.landed = {}

    def run(self):
        for number in range(FILES):
            self.land(number)
            time.sleep(self._dice.uniform(0, 1))  # a random time, not a synchronisation

    def land(self, number):
        """The file of that number of each collector."""
        for name, folder in self._folders.items():
            size = LARGE if number % 10 == 3 else self._dice.randrange(1, 200_000)
            file, content = f"{name}-1760000000000-{number:06}.ndjson", self._dice.randbytes(size)
            (folder / f".{file}").write_bytes(content)
            self.landed[file] = content
            (folder / f".{file}").rename(folder / file)


class Reader(threading.Thread):
    """Takes files out of the landing folder, as Spark does. `order`: the names as they came; `taken`: {name:
    content}."""

    def __init__(self, folder):
        super().__init__(daemon=True)
        self._folder, self.over = folder, threading.Event()
        self.order, self.taken = [], {}

    def run(self):
        while not self.over.wait(0.05):
            for path in sorted(self._folder.glob("*.ndjson"), key=lambda path: path.stat().st_mtime_ns):
                self.order.append(path.name.partition(".")[0] + ".ndjson")
                self.taken[self.order[-1]] = path.read_bytes()
                path.unlink()


def test_uploads_and_downloads_are_killed_repeatedly_and_the_network_is_cut(s3, place, run, tmp_path):
    dice, uri = random.Random(3), f"s3://{place[1]}"
    folders = {name: tmp_path / name for name in COLLECTORS}
    there = tmp_path / "there"
    for folder in (*folders.values(), there):
        folder.mkdir()
    landing, reader = Landing(folders, dice), Reader(there)
    with Cable(s3.port) as cable, Watcher(place) as watcher:

        def start(name, landing, *more):
            return lambda: run(name, uri, "--landing", landing, "--every", 0.1, *more, port=cable.port)

        ways = [("upload", folder) for folder in folders.values()] + [("download", there)]
        begin = time.monotonic()
        for way in ways:
            start(*way, "--once")().succeed()
        longest_s = 4 + 2 * (time.monotonic() - begin) / len(ways)  # half of them are killed at work
        killers = [Killer(start(*way), random.Random(n), longest_s) for n, way in enumerate(ways)]
        landing.start()
        reader.start()
        with killers[0], killers[1], killers[2]:
            while landing.is_alive() or min(killer.kills for killer in killers) < KILLS:
                time.sleep(dice.uniform(1, 4))  # a random time, not a synchronisation
                cable.cut()
                time.sleep(dice.uniform(0, 1))
                cable.join()
        landing.join()
        last = [start(*way)() for way in ways]
        landing.land(FILES)  # only commands that have started move these, and only such end by themselves
        left = (*folders.values(), there)

        def all_moved():
            return reader.taken.keys() == landing.landed.keys() and not (
                objects(place) or any(path for folder in left for path in folder.glob("*.ndjson"))
            )

        wait_for(all_moved, PATIENCE_S, lambda: [command.output()[-1000:] for command in last])
        assert [command.end() for command in last] == [0, 0, 0]
    reader.over.set()
    reader.join()
    assert reader.taken == landing.landed
    assert sorted(reader.order) == sorted(landing.landed)  # none came twice
    for name in COLLECTORS:
        mine = [file for file in reader.order if file.startswith(name)]
        assert mine == sorted(mine)
    assert watcher.half == [] and watcher.seen
    kills = sum(killer.kills for killer in killers)
    print(f"{kills} kills, {cable.cuts} cuts, {len(reader.order)} files, {len(watcher.seen)} objects read")


def test_a_network_that_is_away_is_said_and_waited_for(s3, place, run, tmp_path):
    (tmp_path / "c-1-000000.ndjson").write_text("line\n")
    with Cable(s3.port) as cable:
        cable.cut()
        words = f"s3://{place[1]}", "--landing", tmp_path
        once = run("upload", *words, "--once", port=cable.port)
        assert once.status() == 1 and "NETWORK_CONNECTION" in once.output()
        command = run("upload", *words, port=cable.port)
        wait_for(lambda: "; retrying" in command.output(), PATIENCE_S, command.output)
        assert (tmp_path / "c-1-000000.ndjson").exists()
        cable.join()
        wait_for(lambda: "uploaded 1 file" in command.output(), PATIENCE_S, command.output)
        assert command.end() == 0 and "it works again" in command.output()
    assert len(objects(place)) == 1


@pytest.fixture
def invoke(run_here, s3, monkeypatch):
    """invoke(word, ...) returns a finished command, which ran in this process, with S3 in its environment."""

    def call(*words, port=s3.port):
        for name, value in settings(port).items():
            monkeypatch.setenv(name, value)
        return run_here(*words)

    return call


@pytest.mark.parametrize("name", ["upload", "download"])
@pytest.mark.parametrize("how", [("--once",), ()])
def test_a_bucket_that_is_missing_ends_the_command(invoke, tmp_path, name, how):
    done = invoke(name, "s3://nowhere/landing", "--landing", tmp_path, *how)
    assert done.exit_code == 1 and "s3://nowhere/landing: there is no such bucket: create it" in done.stderr


@pytest.mark.parametrize("name", ["upload", "download"])
def test_wrong_credentials_end_the_command(invoke, tmp_path, name):
    (tmp_path / "c-1-000000.ndjson").write_text("line\n")
    with Moto(tmp_path / "moto", free=0) as server:
        done = invoke(name, f"s3://{BUCKET}/landing", "--landing", tmp_path, port=server.port)
    assert done.exit_code == 1
    assert "access is refused: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY" in done.stderr
    assert (tmp_path / "c-1-000000.ndjson").exists()


@pytest.fixture
def copied(place, tmp_path):
    """Tables and landing files of a small fleet in this folder, and a copy of it in S3. Returns its URI."""
    tables = Tables(tmp_path / "tables")
    for seq, s, oldest in ((0, 0, 0), (2, 30, 2), (4, 90, 4), (6, 95, 5)):
        tables.add("attic", seq, s, oldest)
    tables.marker(60, 61)
    tables.write()
    for folder, file, number, s in (("landing", "c-1-000009", 7, 99), ("tables/landed/here", "c-1-000001", 0, 0)):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / f"{file}.ndjson").write_bytes(landed(number, s))
    files, folder = place
    systems = {"source_filesystem": LocalFileSystem(), "destination_filesystem": files}
    for name in ("landing", "tables"):
        copy_files(str(tmp_path / name), f"{folder}/{name}", **systems)
    return f"s3://{folder}"


def test_report_and_where_tell_the_same_as_of_a_folder(invoke, copied, tmp_path):
    def told(*words):
        """What the command prints as JSON: of the folder, and of S3."""
        remote = "--of", f"{copied}/tables", "--landing", f"{copied}/landing"
        for place in (("--data", tmp_path), (*remote, "--data", tmp_path / "elsewhere")):
            yield json.loads(invoke(*words, *place, "--json").stdout)

    here, there = told("report")
    assert here["fleet"] == there["fleet"] and here["fleet"]["delivered"] == 4
    assert here["devices"] == there["devices"]
    for number, expected in ((0, "delivered"), (1, "lost"), (3, "way"), (5, "journal"), (7, "landed")):
        here, there = told("where", "attic", number)
        assert there["place"] == expected
        assert json.loads(json.dumps(there).replace(copied, str(tmp_path))) == here
    assert there["landed"][0][0] == f"{copied}/landing/c-1-000009.ndjson"

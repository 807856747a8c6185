"""Uploading and downloading, with a folder in the place of a bucket."""

import errno
import itertools
import os
import sqlite3
import threading
from pathlib import Path
from unittest.mock import Mock

import pytest

from host_tests.processes import Killed
from host_tests.thorough import more
from host_tests.tools.fleet.transfer.conftest import Way
from inflight_tools.fleet.lock import Busy
from inflight_tools.fleet.transfer import download
from inflight_tools.fleet.transfer.loop import Loop
from inflight_tools.fleet.transfer.names import Blocked
from inflight_tools.fleet.transfer.objects import Objects

FILES = {f"{name}-1-00000{n}.ndjson": f"{name} {n}\n" for name in "cd" for n in range(2)}


def left(folder):
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def landed(way):
    for name, text in FILES.items():
        way.land(name, text)
    return way


def test_files_arrive_as_they_were_and_leave_what_is_unfinished(landed):
    landed.land(".c-1-000002.spool")
    landed.land(".c-1-000002.ndjson")
    landed.land("notes.txt")
    figures = landed.move("upload")
    assert (figures.files, figures.bytes, figures.waiting) == (4, sum(map(len, FILES.values())), {})
    assert landed.move("download").files == 4
    assert landed.arrived() == FILES
    assert left(landed.bucket) == []
    assert not any((landed.here / name).exists() for name in FILES)
    assert (landed.here / ".c-1-000002.spool").exists() and (landed.here / "notes.txt").exists()


def test_kept_files_are_in_a_folder_of_their_own(landed):
    landed.move("upload", keep=True)
    landed.move("download", keep=True)
    assert landed.arrived() == FILES
    assert {path.name: path.read_text() for path in landed.here.glob("uploaded/*")} == FILES
    assert len(list(landed.bucket.glob("downloaded/*.ndjson"))) == 4
    assert landed.move("upload", keep=True).files == landed.move("download", keep=True).files == 0


def test_a_file_that_comes_again_is_not_downloaded_again(landed):
    """Spark has moved the landing file away meanwhile."""
    landed.move("upload", keep=True)
    landed.move("download")
    for path in landed.there.glob("*.ndjson"):
        path.unlink()
    for path in landed.here.glob("uploaded/*"):
        path.rename(landed.here / path.name)
    assert landed.move("upload").files == 4
    assert landed.move("download").files == 0
    assert landed.arrived() == {} and left(landed.bucket) == []


class Steps:
    """Counts what changes files and objects, and kills the process before or after the step that `at` names."""

    def __init__(self, changed, at):
        self._at, self._done = at, itertools.count()
        for owner, names in ((Path, ("open", "rename", "replace", "unlink")), (os, ("fsync",))):
            for name in names:
                changed.setattr(owner, name, self._step(getattr(owner, name)))
        for name in ("write", "read", "delete", "move"):
            changed.setattr(Objects, name, self._step(getattr(Objects, name)))
        connect, step = sqlite3.connect, self._step

        class Record:
            def __init__(self, *words, **options):
                self._connection = connect(*words, **options)
                self.execute, self.close = step(self._connection.execute), self._connection.close

        changed.setattr(download.sqlite3, "connect", Record)

    def _step(self, work):
        def stepped(*words, **options):
            self._kill()
            done = work(*words, **options)
            self._kill()
            return done

        return stepped

    def _kill(self):
        if next(self._done) == self._at:
            raise Killed


def killed(way, name, keep, at, monkeypatch):
    """Whether moving files was killed at that step; False: it had ended before."""
    side = None
    with monkeypatch.context() as changed:
        Steps(changed, at)
        try:
            side = way.side(name, keep)
            way.once(side)
        except Killed:
            return True
        finally:
            if side:
                side.close()  # the lock, as the kernel does
    return False


@pytest.mark.parametrize("keep", [False, *more(True)])
@pytest.mark.parametrize("name", ["upload", "download"])
def test_killed_at_every_step(name, keep, tmp_path_factory, monkeypatch):
    """Spark reads what is in the landing folder, and moves it away, before the next start."""
    files = dict(itertools.islice(FILES.items(), 2))
    for at in itertools.count():
        way = Way(tmp_path_factory.mktemp("killed"))
        for file, text in files.items():
            way.land(file, text)
        if name == "download":
            way.move("upload", keep)
        was_killed = killed(way, name, keep, at, monkeypatch)
        read = []
        for again in (False, True):
            if again:
                way.move("upload", keep)
                way.move("download", keep)
            read += way.arrived().items()
            for path in way.there.glob("*.ndjson"):
                path.unlink()
        assert sorted(read) == sorted(files.items()), at
        assert list(way.there.glob(".*.part")) == [] and list(way.bucket.glob("*.ndjson")) == []
        if not was_killed:
            break
    assert at > 10


def waits_of(way, name, passes):
    """(Figures, pauses in s) of so many passes of a service that looks for files every 77 s."""
    stopping, waits = threading.Event(), []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == passes:
            stopping.set()

    stopping.wait = wait
    side = way.side(name)
    loop = Loop(side, way.said.append, lambda figures: None)
    loop.run(stopping, 77)
    side.close()
    return loop.figures, waits


def test_an_object_that_is_not_whole_holds_up_its_collector_alone(landed):
    landed.move("upload")
    (damaged,) = landed.bucket.glob("c-1-000000*")
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-1])
    with pytest.raises(Blocked, match=r"c-1-000000\.\w+\.ndjson is not what was uploaded: .* Upload the file again"):
        landed.move("download")
    assert landed.arrived() == {name: text for name, text in FILES.items() if name.startswith("d")}
    landed.said.clear()
    assert waits_of(landed, "download", 3)[1] == [77] * 3 and len(landed.said) == 1  # it does not slow the others down
    damaged.write_bytes(whole)
    assert landed.move("download").files == 2
    assert landed.arrived() == FILES


def test_a_download_does_not_take_an_object_that_is_being_compared(landed, monkeypatch):
    """Otherwise the upload would not find it, and begin again, for ever."""
    read = Objects.read_once

    def taken(objects, name):
        with monkeypatch.context() as changed:
            changed.setattr(Objects, "read_once", read)
            landed.move("download")
        return read(objects, name)

    with monkeypatch.context() as changed:
        changed.setattr(Objects, "read_once", taken)
        assert landed.move("upload").files == 4
    landed.move("download")
    assert landed.arrived() == FILES


def test_an_object_that_reads_back_otherwise_is_uploaded_again(landed, monkeypatch):
    with monkeypatch.context() as changed:
        changed.setattr(Objects, "read_once", lambda self, name: b"other")
        with pytest.raises(OSError, match="is not what was written there"):
            landed.move("upload")
    assert len(list(landed.here.glob("*.ndjson"))) == 4 and list(landed.bucket.glob("*.ndjson")) == []
    assert landed.move("upload").files == 4


def test_what_others_put_there_is_left_alone_and_said(landed):
    landed.move("upload")
    (landed.bucket / "by-hand.ndjson").write_text("line\n")
    landed.move("download")
    assert landed.arrived() == FILES and (landed.bucket / "by-hand.ndjson").exists()
    assert [text for text in landed.said if "1 files in" in text and "left alone" in text]


@pytest.mark.parametrize("name", ["upload", "download"])
def test_only_one_at_a_time(name, way):
    side = way.side(name)
    with pytest.raises(Busy, match=f"another `inflight fleet {name}` has the folder"):
        way.side(name)
    side.close()
    way.side(name).close()


CANNOT_START = {"upload": "File exists"}
CANNOT_START["download"] = r"the record .*\.downloaded\.db cannot be used: file is not a database"


@pytest.mark.parametrize("name", CANNOT_START)
def test_what_cannot_be_started_leaves_nothing_open(way, name):
    """So the next attempt, in the same process, may have the lock."""
    blocking = way.here / "uploaded" if name == "upload" else way.there / download.RECORD
    blocking.parent.mkdir(exist_ok=True)
    blocking.write_bytes(b"not a database" * 1000)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(OSError, match=CANNOT_START[name]):
        way.side(name, keep=True)
    assert os.listdir("/proc/self/fd") == before
    blocking.unlink()
    way.side(name, keep=True).close()


def test_after_a_failure_it_goes_on(landed, monkeypatch):
    """Said once for each outage."""
    write, failures = Objects.write, iter([True, True, False, False, True, *[False] * 10])

    def fragile(objects, name, content):
        if next(failures):
            raise OSError("AWS Error NETWORK_CONNECTION during PutObject operation: curlCode: 7, no connection")
        write(objects, name, content)

    monkeypatch.setattr(Objects, "write", fragile)
    figures, waits = waits_of(landed, "upload", 4)
    assert (figures.files, figures.errors) == (4, 3)
    assert [text.rpartition(": ")[2] for text in landed.said] == ["7, no connection; retrying", "it works again"]
    assert 0.5 <= waits[0] <= 1 <= waits[1] <= 2 <= waits[2] <= 4 and waits[3] == 77


def test_a_file_that_somebody_took_away_meanwhile_is_no_error(landed, monkeypatch):
    (landed.here / "c-1-000000.ndjson").unlink()
    monkeypatch.setattr("inflight_tools.fleet.transfer.upload.Upload.names", lambda _: dict.fromkeys(FILES, 1))
    assert landed.move("upload").files == 3


ENCODE = "percent-encode what a URI cannot have there: %20 for a space"  # Arrow would leave out what is behind # and ?
REFUSED = dict.fromkeys(("bucket/folder", "s3://", "file://"), "a URI like s3://bucket/folder")
REFUSED |= dict.fromkeys(("s3://fleet/a b", "s3://fleet/a#b", "s3://fleet/ü", "s3://fleet/100%"), ENCODE)
REFUSED |= dict.fromkeys(("file:///a#b", "file:///a?b", "file:///a\nb"), ENCODE)
SECRET = ("s3://me:hush@fleet/a b", "s3://me:hu/sh@fleet/a", "s3a://me:hush@fleet/a?nonsense=1", "s3://me@fleet/a")
REFUSED |= dict.fromkeys(SECRET, "^s3a?://fleet/a.*: credentials stand in no URI.* list of processes")


@pytest.mark.parametrize("uri", REFUSED)
def test_a_place_that_is_no_uri_is_refused(uri):
    """No message has the credentials of one."""
    with pytest.raises(ValueError, match=REFUSED[uri]) as refused:
        Objects(uri)
    assert not any(word in str(refused.value) for word in ("me:", "hush", "hu/sh", "allow_delayed_open"))


@pytest.mark.parametrize("folder", [".", "uploaded", "downloaded", "below/it", "linked"])
def test_objects_in_the_landing_folder_are_refused(way, run_here, folder):
    """The second upload would delete the only copy."""
    (way.here / "linked").symlink_to(way.here)
    way.land("c-1-000000.ndjson")
    uri = f"{way.here.as_uri()}/{folder}"
    for name in ("upload", "upload", "download"):
        done = run_here(name, uri, "--landing", way.here, "--once")
        assert done.exit_code == 1 and "share files: give a folder outside of it" in done.stderr
    assert {path.name for path in way.here.iterdir()} == {"linked", "c-1-000000.ndjson"}


@pytest.mark.parametrize(
    "name, folder", [("upload", "uploading"), ("download", "uploading"), ("download", "downloaded")]
)
def test_a_landing_folder_among_the_objects_on_their_way_is_refused(way, run_here, name, folder):
    landing = way.bucket / folder
    landing.mkdir(parents=True)
    done = run_here(name, way.uri, "--landing", landing, "--once")
    assert done.exit_code == 1 and "share files" in done.stderr and left(way.bucket) == []


@pytest.mark.parametrize("step", ["record", "rename"])
def test_a_file_whose_rename_or_record_fails_comes_before_the_later_ones(landed, monkeypatch, step):
    """The record has its name by then: in the case of "record" the error came although the name was written."""
    landed.move("upload")
    side, failures, order = landed.side("download"), iter([True]), []
    rename, record = Path.rename, side.record

    def renamed(path, to):
        if step == "rename" and next(failures, False):
            raise OSError("Input/output error")
        order.append(to.name.partition(".")[0])
        return rename(path, to)

    class Record:
        close = record.close

        def execute(self, statement, *words):
            done = record.execute(statement, *words)
            if step == "record" and statement.startswith("INSERT") and next(failures, False):
                raise sqlite3.OperationalError("disk I/O error")
            return done

    monkeypatch.setattr(Path, "rename", renamed)
    side.record = Record()
    with pytest.raises(OSError, match="error"):
        landed.once(side)
    assert order == [] and len(left(landed.bucket)) == 4
    assert landed.once(side).files == 4
    side.close()
    assert order == [name.removesuffix(".ndjson") for name in FILES]
    assert landed.arrived() == FILES and left(landed.bucket) == []


# Of the name of a file: why it is none of an object.
NO_OBJECT = {
    os.fsdecode(b"b\xff-1-000000.ndjson"): r"b\\udcff-1-\S+ is not UTF-8; rename the file",
    "b\nb-1-000000.ndjson": r"b\\nb-1-\S+ has control characters; rename the file",
    "x-1-000000.ndjson".rjust(185, "x"): r"x-1-\S+ is too long; rename the file",
}


@pytest.mark.parametrize("name", NO_OBJECT, ids=["not_utf8", "control", "long"])
def test_a_name_that_no_object_can_have_holds_up_its_collector_alone(landed, name):
    later = name.replace("000000", "000001")
    for file in (name, later):
        landed.land(file)
    with pytest.raises(Blocked, match=NO_OBJECT[name]):
        landed.move("upload")
    landed.move("download")
    assert landed.arrived() == FILES
    assert {path.name for path in left(landed.here)} - {".upload.lock"} == {name, later}


def test_a_file_that_cannot_be_read_holds_up_its_collector_alone(landed, monkeypatch):
    read = Path.read_bytes

    def refused(path):
        if path.name == "c-1-000000.ndjson":
            raise PermissionError(errno.EACCES, "Permission denied")
        return read(path)

    with monkeypatch.context() as changed:
        changed.setattr(Path, "read_bytes", refused)
        with pytest.raises(Blocked, match=r"the file 'c-1-000000\.ndjson' cannot be read: Permission denied"):
            landed.move("upload")
    landed.move("download")
    assert landed.arrived() == {name: text for name, text in FILES.items() if name.startswith("d")}
    assert landed.move("upload").files == 2


def test_each_new_error_is_said_once(way, monkeypatch):
    """Also if it is of the kind of the one before. A time in its text makes no new error."""
    errors = ["no A after 1 ms", "no A after 20 ms", "no B", "no B", "no A after 3 ms"]
    monkeypatch.setattr(Objects, "names", Mock(side_effect=map(OSError, errors)))
    waits_of(way, "download", 5)
    assert way.said == [f"{text}; retrying" for text in ("no A after 1 ms", "no B", "no A after 3 ms")]


def test_a_uri_that_is_percent_encoded_is_a_folder(landed, tmp_path):
    landed.bucket = tmp_path / "a#b? ü"
    landed.uri = landed.bucket.as_uri()
    assert "%23b%3F%20%C3%BC" in landed.uri
    assert landed.move("upload").files == len(list(landed.bucket.glob("*.ndjson"))) == 4


def test_credentials_are_in_no_uri(run_here, way, tmp_path):
    """All users of a machine see it in the list of processes, and it is in logs."""
    for number, words in enumerate(
        (
            ("tables", "--once", "--to", "URI"),
            ("tables", "--once", "--landing", "URI"),
            ("compact", "--of", "URI"),
            ("report", "--of", "URI"),
            ("where", "attic", "1", "--landing", "URI"),
            ("export", "URI"),
            ("upload", "URI", "--landing", way.here, "--once"),
            ("download", "URI", "--landing", way.here, "--once"),
        )
    ):
        uri = SECRET[1:][number % 3]
        done = run_here(*(uri if word == "URI" else word for word in words), "--data", tmp_path)
        assert done.exit_code == 1 and "list of processes" in done.stderr, words
        assert "hu" not in done.output + done.stderr and "me:" not in done.output + done.stderr
    for uri in ("nonsense://me:hush@fleet/a", "file://me:hush@fleet/a"):
        done = run_here("upload", uri, "--landing", way.here, "--once")
        assert done.exit_code == 1 and "://fleet/a" in done.stderr and "hu" not in done.output + done.stderr
    assert Objects("s3://fleet/a:b@c").uri == "s3://fleet/a:b@c"


def test_a_copy_on_this_machine_is_durable_before_the_file_is_deleted(way, monkeypatch):
    steps, fsync, unlink = [], os.fsync, Path.unlink

    def synced(fd):
        fsync(fd)
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        steps.append(str(path.relative_to(way.bucket)).partition(".")[0])

    def unlinked(path, **options):
        steps.append("deleted")
        unlink(path, **options)

    way.land("c-1-000000.ndjson")
    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "unlink", unlinked)
    way.move("upload")
    assert steps == ["uploading/c-1-000000", "", "deleted"]

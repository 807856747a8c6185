"""`deploy` to a fake board with littlefs: what is copied, kept, removed and refused."""

import contextlib
import json
import socket
from types import SimpleNamespace

import pytest

from host_tests.thorough import more
from host_tests.tools.boards import standin
from host_tests.tools.boards.standin import StandIn
from inflight_tools.boards import deploy as tool
from inflight_tools.boards import slots
from inflight_tools.boards.build.bundle import compile_mpy, files
from inflight_tools.boards.device import link as cable
from inflight_tools.boards.device.files import RECORD, sha
from inflight_tools.boards.device.install import install
from inflight_tools.boards.device.link import DeviceError, Link
from update_record import FETCH, IDLE, Record, unpack

APPLICATION = {
    "/lib/inflight/core.mpy": b"M" * 5000,
    "/lib/inflight/pages.mpy": bytes(range(256)) * 8,
    "/lib/app.mpy": b"app 1",
    "/boot.py": b"",
    "/main.py": b"import time\nwhile True:\n    time.sleep(1)\n",
}
SETTINGS = {"/config.json": b'{"host": "broker.example", "user": "me", "password": "hunter2"}'}


@pytest.fixture
def link(tmp_path, monkeypatch):
    """A Link to a board with an empty flash."""
    with StandIn(tmp_path) as there, Link(there.port) as found:
        yield found
        monkeypatch.setattr(cable, "_QUIET_S", 0)  # nobody opens the port again


def put(link, application=APPLICATION, settings=SETTINGS):
    return install(link, "unix", application, settings)


def put_by(port, *words):
    with Link(port) as link:
        return put(link, *words)


def add_files(link, contents):
    """Writes files of the user to the board."""
    link.run("import os\nfor d in ('/journal', '/lib', '/lib/inflight'):\n try: os.mkdir(d)\n except OSError: pass")
    link.put(contents)


def flash(folder):
    """The files of the board there, without the record of them."""
    return {path: content for path, content in standin.flash(folder).items() if path != RECORD}


# --- what is copied ---


def test_an_empty_board_gets_everything_and_then_nothing(link, tmp_path):
    assert list(put(link).write) == [RECORD, *APPLICATION, *SETTINGS]
    assert flash(tmp_path) == APPLICATION | SETTINGS
    record = json.loads(link.run(f"print(open({RECORD!r}).read())"))
    assert record == {path: sha(content) for path, content in APPLICATION.items()}
    before = (tmp_path / "flash.img").read_bytes()
    again = put(link)
    assert (again.write, again.stale, again.same) == ({}, [], len(APPLICATION))
    assert (tmp_path / "flash.img").read_bytes() == before


def test_a_pico_gets_its_application_as_one_file(tmp_path):
    found = files("unix")
    starts = {f"/lib/{name}.mpy": found[f"/lib/{name}.mpy"] for name in ("image", "launch")}
    application = APPLICATION | starts | {"/lib/word.mpy": compile_mpy("WORD = 'new'", "word")}
    older = {"/word.mpy": compile_mpy("WORD = 'old'", "word")}  # the image comes first
    image = slots.packed(application, "rp2040")["/app.image"]
    with StandIn(tmp_path, platform="rp2") as there, Link(there.port) as link:
        add_files(link, application)
        add_files(link, {RECORD: json.dumps({path: sha(data) for path, data in application.items()}).encode()})
        plan = install(link, "rp2040", application, SETTINGS)
        assert (list(plan.write), plan.same) == ([RECORD, "/app.image", "/config.json"], len(starts) + 2)
        assert plan.stale == ["/lib/inflight/core.mpy", "/lib/inflight/pages.mpy", "/lib/app.mpy", "/lib/word.mpy"]
        link.put(older)
        assert link.run("import launch\nlaunch.main('')\nfrom word import WORD\nprint(WORD)") == "new\n"
        assert not install(link, "rp2040", application, SETTINGS).write
        assert link.run("import sys\nprint('/app' in sys.path)") == "False\n"
    left = {path: data for path, data in application.items() if path in starts or path.count("/") == 1}
    assert flash(tmp_path) == left | SETTINGS | older | {"/app.image": image}


def test_a_file_that_is_damaged_on_the_way_is_reported_and_sent_again(link, tmp_path, monkeypatch):
    send = link.put
    damage = lambda files, *more: send({p: c.replace(b"app 1", b"app !") for p, c in files.items()}, *more)  # noqa: E731
    monkeypatch.setattr(link, "put", damage)
    with pytest.raises(DeviceError, match="^/lib/app.mpy did not arrive as sent: run it again"):
        put(link)
    monkeypatch.undo()
    assert "/lib/app.mpy" in put(link).write
    assert flash(tmp_path) == APPLICATION | SETTINGS


def test_a_new_version_copies_changed_files_and_removes_old_ones(link, tmp_path):
    new = APPLICATION | {"/lib/app.mpy": b"app 2", "/lib/sensors.mpy": b"new"}
    del new["/lib/inflight/pages.mpy"]
    put(link)
    mine = {"/journal/0": b"journal", "/lib/mine.py": b"mine"}
    add_files(link, mine)
    plan = put(link, new)
    assert list(plan.write) == [RECORD, "/lib/app.mpy", "/lib/sensors.mpy"]
    assert plan.stale == ["/lib/inflight/pages.mpy"]
    assert flash(tmp_path) == new | SETTINGS | mine
    assert not put(link, new).write


def test_a_cable_ends_updates_over_the_air(link, tmp_path):
    slots = {"/a.image": b"release 3", "/a.keys": b"[]", "/b.image": b"release 2", "/b.errors": b"", "/b.reason": b"x"}
    others = {"/b.txt": b"mine"}
    put(link)
    add_files(link, slots | others)
    put(link)  # never updated: these are not slots
    assert flash(tmp_path) == APPLICATION | SETTINGS | slots | others
    add_files(link, {"/update.0": b"record", "/update.1": b"record"})
    assert not put(link).write
    assert flash(tmp_path) == APPLICATION | SETTINGS | others


@pytest.mark.parametrize("failed, highest", [(0, 7), (9, 9)])
def test_a_cable_leaves_the_number_below_which_releases_are_refused(link, tmp_path, failed, highest):
    application = APPLICATION | {"/lib/update_record.mpy": files("unix")["/lib/update_record.mpy"]}
    record = Record()
    record.n, record.slot, record.state, record.release, record.candidate, record.failed = 5, 2, FETCH, 7, 10, failed
    put(link, application)
    add_files(link, {"/update.0": record.pack(), "/update.1": b"damaged", "/b.image": b"release 7"})
    put(link, application)
    found = flash(tmp_path)
    left = [unpack(found.pop(f"/update.{n}")) for n in (0, 1)]
    assert found == application | SETTINGS
    for one in left:
        assert (one.state, one.current, one.release, one.candidate) == (IDLE, "", 0, 0) and one.failed == highest
    before = (tmp_path / "flash.img").read_bytes()
    put(link, application)
    assert (tmp_path / "flash.img").read_bytes() == before


def test_changed_files_are_restored_and_those_of_the_user_stay(link, tmp_path):
    pages, settings = "/lib/inflight/pages.mpy", {"/config.json": b'{"host": "other.example"}', "/ca.der": b"\x30\0"}
    new = {path: content for path, content in APPLICATION.items() if path != pages}
    add_files(link, {"/main.py": b"print(1)", "/lib/inflight/core.py": b""})
    plan = put(link)
    assert plan.asides == [("/main.py", "/main.py.old")]
    assert plan.stale == ["/lib/inflight/core.py"]  # as mip installs it
    add_files(link, {"/lib/app.mpy": b"his", pages: b"his"})
    plan = put(link, new)
    assert list(plan.write) == ["/lib/app.mpy"] and not plan.stale
    assert list(put(link, new, settings).write) == ["/config.json", "/ca.der"]
    assert not put(link, new, {}).write
    wanted = new | settings | {pages: b"his", "/main.py.old": b"print(1)"}
    assert flash(tmp_path) == wanted
    add_files(link, {"/main.py": b"print(2)", RECORD: b"{}"})
    with pytest.raises(DeviceError, match="/main.py.old is taken: remove one of them"):
        put(link)
    assert flash(tmp_path) == wanted | {"/main.py": b"print(2)"}


# --- what is refused, before anything is written ---


def test_a_file_that_would_hide_a_module(link, tmp_path):
    for path in ("/lib/app.py", "/app.py", "/app.mpy"):
        add_files(link, {path: b""})
        with pytest.raises(DeviceError, match=f"^{path} on the board would be imported instead of /lib/app.mpy"):
            put(link)
        assert list(flash(tmp_path)) == [path]
        link.run(f"os.remove({path!r})")


def test_not_enough_space(tmp_path):
    large = {"/lib/large.mpy": b"x" * 100_000}
    problem = r"^not enough space: \d+ KiB needed, \d+ KiB free: .* nothing was changed$"
    with StandIn(tmp_path, blocks=24) as there, Link(there.port) as link:
        with pytest.raises(DeviceError, match=problem):
            put(link, large)
        assert not flash(tmp_path)
        put(link)


@pytest.mark.parametrize(
    "platform, version, message",
    [
        ("esp32", (1, 25, 0), "--board unix does not fit: .*: --board esp32$"),
        ("samd", (1, 25, 0), "there is no board folder for samd"),
        ("linux", (1, 21, 0), "micropython 1.21.0 .*, MicroPython 1.22 is needed at least"),
    ],
)
def test_a_wrong_board(platform, version, message):
    told = SimpleNamespace(run=lambda code: repr(("micropython", version, platform, "machine", [], None)))
    with pytest.raises(DeviceError, match=message):
        put(told)


def test_no_configuration_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "files", lambda board: APPLICATION)
    with StandIn(tmp_path) as there:
        with pytest.raises(DeviceError, match="no configuration on the board: bring one, --config config.json"):
            tool.deploy("unix", there.port)
        tool.deploy("unix", there.port, SETTINGS)
        assert tool.deploy("unix", there.port).same == len(APPLICATION)


def test_ports_that_do_not_open(tmp_path, monkeypatch):
    """And one without MicroPython."""
    monkeypatch.setattr(cable, "_PROMPT_S", 0.2)
    with StandIn(tmp_path) as there:
        gone = there.port
    with socket.create_server(("127.0.0.1", 0)) as mute:
        silent = f"socket://127.0.0.1:{mute.getsockname()[1]}"
        for port, problem in (
            ("/dev/ttyNONE", "no port /dev/ttyNONE: plug the board in"),
            (gone, "no answer at socket://"),
            (silent, f"no MicroPython answers on {silent}: press the board's reset"),
        ):
            with pytest.raises(DeviceError, match=f"^{problem}"), Link(port):
                pass


# --- power and cable ---


def test_the_board_is_reset_at_the_end_even_after_an_error(tmp_path):
    with StandIn(tmp_path) as there:
        starts = there.starts
        with pytest.raises(ZeroDivisionError), Link(there.port):
            raise ZeroDivisionError
        with Link(there.port):  # waits for the board
            assert there.starts > starts


def test_a_slow_switch_feeds_the_watchdog_and_is_not_silent(link, monkeypatch):
    """Sixty seconds without a word are a lost connection, and flash may need longer for all files."""
    said = []

    def spy(link, code, feed=True):
        before = int(run(link, "print(Fake.fed)", False))
        output = run(link, code, feed)
        said.append((code, output, int(run(link, "print(Fake.fed)", False)) - before))
        return output

    run = Link.run
    fake = "import sys\nclass Fake:\n fed = 0\n def watchdog(ms): Fake.fed += 1\nsys.modules['board'] = Fake\n"
    put(link)
    link.run(fake + "import os\nos.mkdir('/lib/inflight.new')")
    link.put({f"/lib/inflight.new/{number}": b"left over" for number in range(3)})
    monkeypatch.setattr(Link, "run", spy)
    plan = install(link, "unix", {"/main.py": b"new"}, {})
    steps = len(plan.write) + len(plan.stale)
    (cleared,) = ((output, fed) for code, output, fed in said if "statvfs" in code)
    (switched,) = ((output, fed) for code, output, fed in said if "os.rename" in code)
    assert cleared[0].startswith("...\n") and cleared[1] == 1 + 3
    assert switched == ("." * steps, 1 + steps)


OLD = APPLICATION
NEW = {path: content + b"# new" for path, content in OLD.items()} | {"/lib/more.mpy": b"more"}


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """(the flash of a board that has the old version, the bytes that an uninterrupted deploy of the new one sends)"""
    folder = tmp_path_factory.mktemp("whole")
    with StandIn(folder) as there:
        put_by(there.port, OLD)
        old = (folder / "flash.img").read_bytes()
        there.received.clear()
        put_by(there.port, NEW)
        return old, len(there.received)


@pytest.fixture
def old(tmp_path, deployed):
    with StandIn(tmp_path):
        pass  # makes its folders
    (tmp_path / "flash.img").write_bytes(deployed[0])


@pytest.mark.parametrize("part", [0.5, 0.97, *more(0.02, 0.9)])
def test_a_pulled_cable_leaves_the_old_version_or_the_new_one(tmp_path, old, deployed, part):
    with StandIn(tmp_path) as there:
        there.cut_after = int(deployed[1] * part)
        with pytest.raises(DeviceError, match="check the cable and run it again") as caught:
            put_by(there.port, NEW, {"/config.json": SETTINGS["/config.json"] + b" "})
        assert "hunter2" not in str(caught.value)
    found = flash(tmp_path)
    assert {path: found.get(path) for path in NEW} in (NEW, {path: OLD.get(path) for path in NEW})
    with StandIn(tmp_path) as there:
        put_by(there.port, NEW)
    assert flash(tmp_path) == NEW | SETTINGS


@pytest.mark.parametrize("writes", [76, 92, *more(40, 84)])  # files are renamed at about 76 to 95
def test_power_cut_at_any_write_can_be_repaired(tmp_path, old, writes):
    # deploy may notice that the files are not as written.
    with StandIn(tmp_path, writes=writes) as there, contextlib.suppress(DeviceError):
        put_by(there.port, NEW)
    with StandIn(tmp_path) as there:
        put_by(there.port, NEW)
    assert flash(tmp_path) == NEW | SETTINGS

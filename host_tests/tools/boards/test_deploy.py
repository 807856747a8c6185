"""`deploy` to a fake board with littlefs: what is copied, kept, removed and refused."""

import contextlib
import json
import socket

import pytest
from littlefs import LittleFS, UserContextFile

from host_tests.tools.boards.standin import StandIn
from inflight_tools.boards import deploy as tool
from inflight_tools.boards import slots
from inflight_tools.boards.build.bundle import compile_mpy, files
from inflight_tools.boards.device import link as cable
from inflight_tools.boards.device.files import RECORD, sha
from inflight_tools.boards.device.install import install
from inflight_tools.boards.device.link import DeviceError, Link
from tools.demo.sensors import best_runtime
from update_record import FETCH, IDLE, Record, unpack

try:
    RUNTIME = best_runtime()
except RuntimeError as e:
    pytest.skip(str(e), allow_module_level=True)

APPLICATION = {
    "/lib/inflight/core.mpy": b"M" * 5000,
    "/lib/inflight/pages.mpy": bytes(range(256)) * 8,
    "/lib/app.mpy": b"app 1",
    "/boot.py": b"",
    "/main.py": b"while True:\n    pass\n",
}
SETTINGS = {"/config.json": b'{"host": "broker.example", "user": "me", "password": "hunter2"}'}


def board(folder, **options):
    return StandIn(folder, RUNTIME, **options)


def put(port, application=APPLICATION, settings=SETTINGS, **options):
    with Link(port) as link:
        return install(link, "unix", application, settings, **options)


def add_files(port, contents):
    """Writes files of the user to the board."""
    with Link(port) as link:
        link.run("import os\nfor d in ('/journal', '/lib', '/lib/inflight'):\n try: os.mkdir(d)\n except OSError: pass")
        link.put(contents)


def flash(folder):
    """{path: content} of the files in the flash of the board in `folder`."""
    context = UserContextFile(str(folder / "flash.img"))
    blocks = (folder / "flash.img").stat().st_size // 4096
    system = LittleFS(context, block_size=4096, block_count=blocks, read_size=32, prog_size=32, cache_size=128)
    found = {}
    for top, _, names in system.walk("/"):
        for name in names:
            path = f"{top.rstrip('/')}/{name}"
            with system.open(path, "rb") as f:
                found[path] = f.read()
    return found


def without_record(found):
    return {path: content for path, content in found.items() if path != RECORD}


# --- what is copied ---


def test_an_empty_board_gets_everything_and_then_nothing(tmp_path):
    with board(tmp_path) as there:
        assert list(put(there.port).write) == [RECORD, *APPLICATION, *SETTINGS]
        found = flash(tmp_path)
        assert without_record(found) == APPLICATION | SETTINGS
        assert json.loads(found[RECORD]) == {path: sha(content) for path, content in APPLICATION.items()}
        before = (tmp_path / "flash.img").read_bytes()
        again = put(there.port)
        assert (again.write, again.stale, again.same) == ({}, [], len(APPLICATION))
    assert (tmp_path / "flash.img").read_bytes() == before


def test_a_pico_gets_its_application_as_one_file(tmp_path):
    found = files("unix")
    starts = {f"/lib/{name}.mpy": found[f"/lib/{name}.mpy"] for name in ("image", "launch")}
    application = APPLICATION | starts | {"/lib/word.mpy": compile_mpy("WORD = 'new'", "word")}
    older = {"/word.mpy": compile_mpy("WORD = 'old'", "word")}  # the image comes first
    image = slots.packed(application, "rp2040")["/app.image"]
    with board(tmp_path, platform="rp2") as there:
        add_files(there.port, application)
        add_files(there.port, {RECORD: json.dumps({path: sha(data) for path, data in application.items()}).encode()})
        with Link(there.port) as link:
            plan = install(link, "rp2040", application, SETTINGS)
            assert (list(plan.write), plan.same) == ([RECORD, "/app.image", "/config.json"], len(starts) + 2)
            assert plan.stale == ["/lib/inflight/core.mpy", "/lib/inflight/pages.mpy", "/lib/app.mpy", "/lib/word.mpy"]
            link.put(older)
            assert link.run("import launch\nlaunch.main('')\nfrom word import WORD\nprint(WORD)") == "new\n"
            assert not install(link, "rp2040", application, SETTINGS).write
            assert link.run("import sys\nprint('/app' in sys.path)") == "False\n"
    left = {path: data for path, data in application.items() if path in starts or path.count("/") == 1}
    assert without_record(flash(tmp_path)) == left | SETTINGS | older | {"/app.image": image}


def test_a_file_that_is_damaged_on_the_way_is_reported_and_sent_again(tmp_path):
    with board(tmp_path) as there:
        with Link(there.port) as link:
            send = link.put
            link.put = lambda files, *more: send({p: c.replace(b"app 1", b"app !") for p, c in files.items()}, *more)
            with pytest.raises(DeviceError, match="^/lib/app.mpy did not arrive as sent: run it again"):
                install(link, "unix", APPLICATION, SETTINGS)
        assert "/lib/app.mpy" in put(there.port).write
    assert without_record(flash(tmp_path)) == APPLICATION | SETTINGS


def test_a_new_version_copies_changed_files_and_removes_old_ones(tmp_path):
    new = APPLICATION | {"/lib/app.mpy": b"app 2", "/lib/sensors.mpy": b"new"}
    del new["/lib/inflight/pages.mpy"]
    with board(tmp_path) as there:
        put(there.port)
        mine = {"/journal/0": b"journal", "/lib/mine.py": b"mine"}
        add_files(there.port, mine)
        plan = put(there.port, new)
        assert list(plan.write) == [RECORD, "/lib/app.mpy", "/lib/sensors.mpy"]
        assert plan.stale == ["/lib/inflight/pages.mpy"]
        assert without_record(flash(tmp_path)) == new | SETTINGS | mine
        assert not put(there.port, new).write


def test_a_cable_ends_updates_over_the_air(tmp_path):
    slots = {"/a.image": b"release 3", "/a.keys": b"[]", "/b.image": b"release 2", "/b.errors": b"", "/b.reason": b"x"}
    others = {"/b.txt": b"mine"}
    with board(tmp_path) as there:
        put(there.port)
        add_files(there.port, slots | others)
        put(there.port)  # never updated: these are not slots
        assert without_record(flash(tmp_path)) == APPLICATION | SETTINGS | slots | others
        add_files(there.port, {"/update.0": b"record", "/update.1": b"record"})
        assert not put(there.port).write
        assert without_record(flash(tmp_path)) == APPLICATION | SETTINGS | others


@pytest.mark.parametrize("failed, highest", [(0, 7), (9, 9)])
def test_a_cable_leaves_the_number_below_which_releases_are_refused(tmp_path, failed, highest):
    application = APPLICATION | {"/lib/update_record.mpy": files("unix")["/lib/update_record.mpy"]}
    record = Record()
    record.n, record.slot, record.state, record.release, record.candidate, record.failed = 5, 2, FETCH, 7, 10, failed
    with board(tmp_path) as there:
        put(there.port, application)
        add_files(there.port, {"/update.0": record.pack(), "/update.1": b"damaged", "/b.image": b"release 7"})
        put(there.port, application)
        found = flash(tmp_path)
        left = [unpack(found.pop(f"/update.{n}")) for n in (0, 1)]
        assert without_record(found) == application | SETTINGS
        for one in left:
            assert (one.state, one.current, one.release, one.candidate) == (IDLE, "", 0, 0) and one.failed == highest
        before = (tmp_path / "flash.img").read_bytes()
        put(there.port, application)
    assert (tmp_path / "flash.img").read_bytes() == before


def test_a_changed_file_is_restored_and_an_old_one_is_kept(tmp_path):
    new = {path: content for path, content in APPLICATION.items() if path != "/lib/inflight/pages.mpy"}
    with board(tmp_path) as there:
        put(there.port)
        add_files(there.port, {"/lib/app.mpy": b"his", "/lib/inflight/pages.mpy": b"his"})
        plan = put(there.port, new)
        assert list(plan.write) == ["/lib/app.mpy"] and not plan.stale
        assert without_record(flash(tmp_path)) == new | SETTINGS | {"/lib/inflight/pages.mpy": b"his"}


def test_new_settings_are_copied_and_old_ones_stay(tmp_path):
    new = {"/config.json": b'{"host": "other.example"}', "/ca.der": b"\x30\x03\x02\x01\x05"}
    with board(tmp_path) as there:
        put(there.port)
        assert list(put(there.port, settings=new).write) == ["/config.json", "/ca.der"]
        assert not put(there.port, settings={}).write
        assert without_record(flash(tmp_path)) == APPLICATION | new


def test_the_users_main_program_is_renamed(tmp_path):
    with board(tmp_path) as there:
        add_files(there.port, {"/main.py": b"print(1)"})
        assert put(there.port).asides == [("/main.py", "/main.py.old")]
        assert flash(tmp_path)["/main.py.old"] == b"print(1)"
        add_files(there.port, {"/main.py": b"print(2)", RECORD: b"{}"})
        with pytest.raises(DeviceError, match="/main.py.old is taken: remove one of them"):
            put(there.port)
        assert flash(tmp_path)["/main.py"] == b"print(2)"


def test_the_library_that_mip_installed_is_replaced(tmp_path):
    with board(tmp_path) as there:
        add_files(there.port, {"/lib/inflight/core.py": b""})
        assert put(there.port).stale == ["/lib/inflight/core.py"]
        assert without_record(flash(tmp_path)) == APPLICATION | SETTINGS


# --- what is refused, before anything is written ---


@pytest.mark.parametrize("path", ["/lib/app.py", "/app.py", "/app.mpy"])
def test_a_file_that_would_hide_a_module(tmp_path, path):
    with board(tmp_path) as there:
        add_files(there.port, {path: b""})
        with pytest.raises(DeviceError, match=f"^{path} on the board would be imported instead of /lib/app.mpy"):
            put(there.port)
    assert list(flash(tmp_path)) == [path]


def test_not_enough_space(tmp_path):
    large = {"/lib/large.mpy": b"x" * 100_000}
    with board(tmp_path, blocks=24) as there:
        with pytest.raises(
            DeviceError, match=r"^not enough space: \d+ KiB needed, \d+ KiB free: .* nothing was changed$"
        ):
            put(there.port, large)
        assert not flash(tmp_path)
        put(there.port)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"platform": "esp32"}, "--board unix does not fit: .*: --board esp32$"),
        ({"platform": "samd"}, "there is no board folder for samd"),
        ({"version": "1.21.0"}, "micropython 1.21.0 .*, MicroPython 1.22 is needed at least"),
    ],
)
def test_a_wrong_board(tmp_path, options, message):
    with board(tmp_path, **options) as there, pytest.raises(DeviceError, match=message):
        put(there.port)
    assert not flash(tmp_path)


def test_no_configuration_anywhere(tmp_path, monkeypatch):
    monkeypatch.setattr(tool, "files", lambda board: APPLICATION)
    with board(tmp_path) as there:
        with pytest.raises(DeviceError, match="no configuration on the board: bring one, --config config.json"):
            tool.deploy("unix", there.port)
        tool.deploy("unix", there.port, SETTINGS)
        assert tool.deploy("unix", there.port).same == len(APPLICATION)


def test_ports_that_do_not_open(tmp_path):
    with pytest.raises(DeviceError, match="^no port /dev/ttyNONE: plug the board in"), Link("/dev/ttyNONE"):
        pass
    with board(tmp_path) as there:
        port = there.port
    with pytest.raises(DeviceError, match="^no answer at socket://"), Link(port):
        pass


def test_a_port_without_micropython(monkeypatch):
    monkeypatch.setattr(cable, "_PROMPT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = f"socket://127.0.0.1:{mute.getsockname()[1]}"
        with (
            pytest.raises(DeviceError, match=f"^no MicroPython answers on {port}: press the board's reset"),
            Link(port),
        ):
            pass


# --- power and cable ---


def test_the_board_is_reset_at_the_end_even_after_an_error(tmp_path):
    with board(tmp_path) as there:
        starts = there.starts
        with pytest.raises(ZeroDivisionError), Link(there.port):
            raise ZeroDivisionError
        add_files(there.port, {})  # waits for the board
        assert there.starts > starts


def test_a_slow_switch_feeds_the_watchdog_and_is_not_silent(tmp_path, monkeypatch):
    """Sixty seconds without a word are a lost connection, and flash may need longer for all files."""
    said = []

    def spy(link, code, feed=True):
        before = int(run(link, "print(Fake.fed)", False))
        output = run(link, code, feed)
        said.append((code, output, int(run(link, "print(Fake.fed)", False)) - before))
        return output

    run = Link.run
    fake = "import sys\nclass Fake:\n fed = 0\n def watchdog(ms): Fake.fed += 1\nsys.modules['board'] = Fake\n"
    with board(tmp_path) as there, Link(there.port) as link:
        install(link, "unix", APPLICATION, SETTINGS)
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
def cost(tmp_path_factory):
    """The bytes that an uninterrupted deploy sends."""
    folder = tmp_path_factory.mktemp("whole")
    with board(folder) as there:
        put(there.port, OLD)
        there.received.clear()
        put(there.port, NEW)
        return len(there.received)


@pytest.mark.parametrize("part", [0.02, 0.5, 0.9, 0.97])
def test_a_pulled_cable_leaves_the_old_version_or_the_new_one(tmp_path, cost, part):
    with board(tmp_path) as there:
        put(there.port, OLD)
        there.received.clear()
        there.cut_after = int(cost * part)
        with pytest.raises(DeviceError, match="check the cable and run it again") as caught:
            put(there.port, NEW, {"/config.json": SETTINGS["/config.json"] + b" "})
        assert "hunter2" not in str(caught.value)
    found = flash(tmp_path)
    assert {path: found.get(path) for path in NEW} in (NEW, {path: OLD.get(path) for path in NEW})
    with board(tmp_path) as there:
        put(there.port, NEW)
    assert without_record(flash(tmp_path)) == NEW | SETTINGS


@pytest.mark.parametrize("writes", [40, 76, 84, 92])  # files are renamed at about 76 to 95
def test_power_cut_at_any_write_can_be_repaired(tmp_path, writes):
    with board(tmp_path) as there:
        put(there.port, OLD)
        add_files(there.port, {"/lib/mine.py": b"mine"})
    # deploy may notice that the files are not as written.
    with board(tmp_path, writes=writes) as there, contextlib.suppress(DeviceError):
        put(there.port, NEW)
    with board(tmp_path) as there:
        put(there.port, NEW)
    assert without_record(flash(tmp_path)) == NEW | SETTINGS | {"/lib/mine.py": b"mine"}

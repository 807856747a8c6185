"""`inflight board library`: a package that mip installs, and with which the first programs of README and guide run."""

import json
import subprocess
import sys

import pytest

from host_tests.absent import interpreter
from host_tests.docs.pages import first_program
from host_tests.docs.reader import ReplyingBroker
from host_tests.thorough import more
from host_tests.tools.boards.site import of_folder
from host_tests.tools.boards.standin import StandIn
from host_tests.tools.command import inflight
from inflight_tools.boards.build import bundle
from inflight_tools.boards.device.install import install
from inflight_tools.boards.device.link import Link

BOARD = {"board", "built", "clock", "codes", "ethernet", "power", "probe", "radio", "storage", "wifi"}
BOARD.add("connectivity")


def made(folder, *words):
    """{path: content} of what the command writes."""
    done = inflight("board", "library", folder, *words)
    assert done.exit_code == 0 and done.stdout.startswith(f"{folder}/package.json: "), done.output
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_library_for_any_board(tmp_path):
    found = made(tmp_path)
    package = json.loads(found.pop("package.json"))
    assert found == {f"{place}.mpy": code for place, code in bundle.compile_all(bundle.library()).items()}
    assert package["urls"] == [[path, path] for path in sorted(found)]


@pytest.mark.parametrize("words", [[], ["--bytecode"]])
def test_the_library_for_one_board(tmp_path, words):
    """It has machine code for the board's processor, and what the module board needs; nothing of the application."""
    found = made(tmp_path, "--board", "pico_w", *words)
    package = json.loads(found.pop("package.json"))
    assert sorted(path for path, _ in package["urls"]) == sorted(found)
    assert {path.removesuffix(".mpy") for path in found if "/" not in path} == BOARD
    assert package.get("processor") == (None if words else "armv6m")
    plain = {f"{place}.mpy": code for place, code in bundle.compile_all(bundle.library()).items()}
    other = [path for path, code in plain.items() if found[path] != code]
    assert other == ([] if words else ["inflight/journal_core.mpy"])


@pytest.mark.parametrize(
    "words, page, name",
    [([], "docs/guide/first-program.md", "micropython-x86"), (["--board", "unix"], "README.md", "micropython-x64")],
    ids=["any", "board"],
)
def test_the_first_program(tmp_path, words, page, name):
    """All that differs is where the broker is."""
    runtime = interpreter(name)
    made(tmp_path / "lib", *words)
    with ReplyingBroker() as broker:
        (tmp_path / "program.py").write_text(first_program(page, "127.0.0.1", broker.port))
        environment = {"MICROPYPATH": f".frozen:{tmp_path / 'lib'}"}
        with (tmp_path / "printed").open("wb") as printed:
            process = subprocess.Popen(
                [*runtime.command("400k"), "program.py"], cwd=tmp_path, env=environment, stdout=printed, stderr=printed
            )
            try:
                done = broker.wait_for(lambda: broker.idle and broker.arrived and broker.sessions)
            finally:
                process.kill()
                process.wait()
    assert done, (tmp_path / "printed").read_text()


@pytest.mark.long("INFLIGHT_TOOLS")
def test_mpremote_installs_it(tmp_path):
    made(tmp_path / "package", "--board", "unix")
    with StandIn(tmp_path) as board:

        def mpremote(*words):
            command = [sys.executable, "-m", "mpremote", "connect", board.port, "resume", *words]
            return subprocess.run(command, capture_output=True, text=True, check=True).stdout

        assert "Done" in mpremote("mip", "install", str(tmp_path / "package/package.json"))
        there = mpremote("exec", "from inflight import Client\nimport board\nprint(Client.__name__, board.NAME)")
    assert there.split() == ["Client", "unix"]


@pytest.mark.parametrize("name", ["micropython-x64", *more("micropython-x86")])
def test_mip_on_a_board_installs_what_has_whole_addresses(tmp_path, name):
    """As every mip does; that of MicroPython up to 1.25 takes no other ones."""
    runtime = interpreter(name)
    with of_folder(tmp_path / "package") as url:
        found = made(tmp_path / "package", "--board", "unix", "--url", f"{url}/")
        program = f"import mip\nmip.install({url + '/package.json'!r}, target={str(tmp_path / 'lib')!r})"
        command = [*runtime.command("400k"), "-c", program]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    if "no module named" in done.stderr:
        pytest.skip(f"{name} was built without mip")
    assert "Done" in done.stdout, done.stdout + done.stderr
    del found["package.json"]
    lib = tmp_path / "lib"
    assert {path.relative_to(lib).as_posix(): path.read_bytes() for path in lib.rglob("*.mpy")} == found


@pytest.mark.parametrize(
    "words", [["--url", "192.168.1.10:8000"], ["--url", "http://x", "--board", "unix", "--port", "p"]]
)
def test_an_address_that_is_none(tmp_path, words):
    done = inflight("board", "library", tmp_path, *words)
    assert done.exit_code == 1 and "--url is an address" in done.stderr and not [*tmp_path.iterdir()]


def on(board, *words):
    """The board tells what it is."""
    return inflight("board", "library", "--port", board.port, *words)


def test_onto_a_board_beside_the_users_files_and_away(tmp_path):
    with StandIn(tmp_path) as board:
        with Link(board.port) as link:
            link.put({"/main.py": b"mine", "/own.py": b"mine"})
        done = on(board)
        assert done.exit_code == 0, done.output
        with Link(board.port) as link:
            used = "from inflight import Client\nimport board\nprint(Client.__name__, board.NAME)"
            assert link.run(used).split() == ["Client", "unix"]
        again = on(board)
        assert "0 files written, 0 removed" in again.stdout
        with Link(board.port) as link:
            link.put({"/lib/codes.mpy": b"changed"})
        away = on(board, "--remove")
        assert away.exit_code == 0 and "/lib/codes.mpy has changed since, and stays" in away.stdout
        with Link(board.port) as link:
            left = link.run("import os\nprint(os.listdir('/'), os.listdir('/lib'))")
            assert "'main.py'" in left and "'own.py'" in left and left.rstrip().endswith("['codes.mpy']")
        nothing = on(board, "--remove")
        assert nothing.exit_code == 1 and "nothing to remove" in nothing.stderr


def test_a_board_that_has_the_application(tmp_path):
    with StandIn(tmp_path) as board:
        with Link(board.port) as link:
            install(link, "unix", {"/lib/app.mpy": b"app", "/main.py": b"import app"}, {})
        for words, problem in (([], "`inflight board deploy` brings it"), (["--remove"], "needs the library")):
            done = on(board, *words)
            assert done.exit_code == 1 and problem in done.stderr and len(done.stderr.splitlines()) == 1

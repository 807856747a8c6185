"""Firmware of a person's own, with modules frozen in: what images and boards still get, and what is refused."""

import json
import re
from types import SimpleNamespace

import pytest

from host_tests.tools.boards import test_deploy
from host_tests.tools.boards.made_firmware import BANNER, esp_firmware, pico_firmware, stock_layout
from host_tests.tools.boards.mounted import FLASH, booted, mounted
from host_tests.tools.boards.standin import StandIn, flash
from host_tests.tools.boards.test_deploy import SETTINGS
from inflight_tools.boards import slots
from inflight_tools.boards.build import bundle
from inflight_tools.boards.device import rom
from inflight_tools.boards.device.files import RECORD, sha
from inflight_tools.boards.device.install import install
from inflight_tools.boards.device.link import DeviceError, Link
from inflight_tools.boards.frozen import Frozen, of
from inflight_tools.boards.images.board_image import make, placed

FOLDERS = {"esp32": "esp32", "pico_w": "rp2040"}
LIBRARY = re.compile("/lib/inflight/")
KIB = 1024
APPLICATION = {path: data for path, data in test_deploy.APPLICATION.items() if "pages" not in path}


def stamp(folder, application):
    return of(bundle.modules(folder), folder if application else "")


def firmware(board, told=b"", **options):
    """A firmware file that contains the bytes `told`."""
    banner = BANNER + b"\0" + told + b"\0"
    return esp_firmware(banner=banner, **options) if board == "esp32" else pico_firmware(banner=banner, **options)


def image(folder, board, content, **options):
    """The image for a board with the firmware `content`."""
    (folder / "firmware").write_bytes(content)
    (folder / "config.json").write_text('{"host": "broker.example"}')
    return make(board, folder / "firmware", None, folder / "config.json", **options)


def files_of(made):
    """{path: content} in the file system of an image."""
    if made.suffix == ".bin":
        part = made.table.by_name("vfs")
        return mounted(made.file()[part.offset - made.base :][: part.size])
    return mounted(flash_of(made, made.start, made.size), 256)


def flash_of(made, start, size):
    """What a UF2 image leaves in the flash from address `start`."""
    flash = booted(made, bytearray(b"\xff") * (2 << 20), made.variant.family)
    return bytes(flash[start - FLASH :][:size])


# --- images ---


@pytest.mark.parametrize("board", FOLDERS)
def test_an_image_leaves_out_the_library_that_is_frozen(tmp_path, board):
    made = image(tmp_path, board, firmware(board, str(stamp(FOLDERS[board], False)).encode()))
    wanted = {path: data for path, data in bundle.files(FOLDERS[board]).items() if not LIBRARY.match(path)}
    wanted = slots.packed(wanted, FOLDERS[board])
    found = files_of(made)
    assert json.loads(found.pop(RECORD)) == {path: sha(content) for path, content in wanted.items()}
    assert found == wanted | {"/config.json": (tmp_path / "config.json").read_bytes()}
    assert {"/boot.py", "/main.py", "/lib/launch.mpy", slots.APPLICATION} <= set(found)


OTHER = Frozen("0.0.9", "0123456789abcdef", "rp2040", "fedcba9876543210")
UNTOLD = "the firmware has modules of Inflight frozen in, and does not tell of"


@pytest.mark.parametrize(
    "told, problem",
    [
        (lambda: OTHER, "the firmware has another release of Inflight frozen in .*0.0.9.*tools are of another"),
        (lambda: stamp("esp32", True), "the firmware has the application for esp32 frozen in, not for rp2040"),
        (lambda: "\0inflight/__init__.py\0", UNTOLD),
        (lambda: "rp2.py\0codes.py\0", UNTOLD),
        (lambda: f"{OTHER}{stamp('rp2040', True)}", "the firmware tells of several releases that are frozen in"),
    ],
    ids=["release", "board", "library", "application", "two"],
)
def test_a_firmware_with_other_modules_is_refused(tmp_path, told, problem):
    with pytest.raises(ValueError, match=f"^{problem}") as e:
        image(tmp_path, "pico_w", firmware("pico_w", str(told()).encode()))
    assert "\n" not in str(e.value)


# --- images with a ROM file system ---

ROM = (0x100A_0000, 0x8_0000)  # before the file system of made firmware


def rom_firmware(board, size):
    if board == "pico_w":
        return firmware(board, rom=(ROM[0], size))
    return firmware(board, b"\0rom_ioctl", layout=[*stock_layout(2), ("romfs", 0x8F, size)])


def rom_of(made):
    """The bytes at the place of the ROM file system."""
    if made.suffix == ".bin":
        return next(data for name, _, data in made.pieces() if name == "ROM file system")
    return flash_of(made, *ROM)


@pytest.mark.parametrize("board", FOLDERS)
def test_the_modules_go_to_the_rom_file_system(tmp_path, board):
    made = image(tmp_path, board, rom_firmware(board, 256 * KIB), romfs=True)
    application = bundle.files(FOLDERS[board])
    found = files_of(made)
    assert {*found} == {"/boot.py", "/main.py", "/config.json", RECORD}
    assert json.loads(found[RECORD]) == {path: sha(application[path]) for path in ("/boot.py", "/main.py")}
    in_rom = mounted(rom_of(made), 0)
    assert in_rom == {path: data for path, data in application.items() if path.startswith("/lib/")}
    # Without --romfs an older one is made invalid.
    assert set(rom_of(image(tmp_path, board, rom_firmware(board, 256 * KIB)))[:4096]) == {0xFF}


@pytest.mark.parametrize("board", FOLDERS)
def test_what_is_frozen_or_does_not_fit_the_rom_decides_what_is_placed_where(board):
    folder = FOLDERS[board]
    application = bundle.files(folder)
    assert placed(application, stamp(folder, True), folder, None) == ({}, b"")
    found, rom = placed(application, None, folder, 128 * KIB)
    assert slots.APPLICATION in found and not any(map(LIBRARY.match, found))
    library = {path: data for path, data in application.items() if LIBRARY.match(path)}
    assert mounted(rom, 0) == library
    for frozen, size, problem in (
        (None, 0, "the firmware has no ROM file system: leave --romfs out, or use a firmware built with space for it"),
        (None, 16 * KIB, r"\d+ bytes do not fit the ROM file system, 16384 bytes: leave --romfs out"),
        (stamp(folder, True), 256 * KIB, "the firmware has the application frozen in: leave --romfs out"),
    ):
        with pytest.raises(ValueError, match=f"^{problem}"):
            placed(application, frozen, folder, size)


@pytest.mark.parametrize(
    "told, options, problem",
    [
        (b"", {}, "^the firmware has no ROM file system"),  # a partition without the code for it is none
        (b"\0rom_ioctl", {"ota": True}, "^--ota leaves no space for a ROM file system: choose one of them"),
    ],
)
def test_a_firmware_without_space_for_a_rom_file_system(tmp_path, told, options, problem):
    content = firmware("esp32", told, layout=[*stock_layout(2), ("romfs", 0x8F, 256 * KIB)])
    with pytest.raises(ValueError, match=problem):
        image(tmp_path, "esp32", content, romfs=True, **options)


# --- boards that run ---


@pytest.fixture
def board(tmp_path):
    """board(told): a fake board whose firmware has a module that tells `told` frozen in."""
    return lambda told, **options: StandIn(tmp_path, frozen=told, **options)


def put(port, application=APPLICATION, **options):
    with Link(port) as link:
        said = []
        return install(link, "unix", application, SETTINGS, say=said.append, **options), said


def test_a_board_with_the_library_gets_the_rest(board):
    with board(str(stamp("unix", False))) as there:
        plan, said = put(there.port)
        wanted = {path for path in (*APPLICATION, *SETTINGS) if not LIBRARY.match(path)}
        assert {*plan.write} == {RECORD, *wanted}
        assert said[0] == "the firmware has the library frozen in"
        plan, _ = put(there.port)
        assert not (plan.write or plan.stale) and plan.same == len(wanted - {*SETTINGS})


def test_a_board_with_the_application_gets_its_settings_alone(board):
    with board("") as there:
        put(there.port)
    # Its firmware is replaced, and its files stay.
    with board(str(stamp("unix", True))) as there:
        plan, said = put(there.port)
        assert sorted(plan.stale) == sorted(APPLICATION)
        assert {*plan.write} == {RECORD}
        assert said[0] == "the firmware has the application frozen in"
        assert not put(there.port)[0].write


@pytest.mark.parametrize(
    "told, problem",
    [
        (OTHER, "^the firmware has the application for rp2040"),
        (Frozen("0.0.9", "0" * 16), "another release of Inflight"),
        ("no sentence of ours", "does not tell of which release"),
    ],
    ids=["board", "release", "untold"],
)
def test_a_board_with_other_modules_is_refused(told, problem):
    board = repr(("micropython", (1, 25, 0), "linux", "machine", [], str(told)))
    link = SimpleNamespace(run=lambda code: "" if RECORD in code else board)
    with pytest.raises(DeviceError, match=problem):
        install(link, "unix", APPLICATION, SETTINGS)


def test_romfs_on_a_board_with_the_library_takes_the_rest(board):
    with board(str(stamp("unix", False)), rom=64 * 1024) as there:
        plan, _ = put(there.port, in_rom=True)
        assert {*plan.write} == {RECORD, "/boot.py", "/main.py", *SETTINGS}
        with Link(there.port) as link:
            assert "app.mpy" in link.run("import os\nprint(os.listdir('/rom/lib'))")
    message = "^the firmware has the application frozen in: leave --romfs out"
    with board(str(stamp("unix", True)), rom=64 * 1024) as there, pytest.raises(DeviceError, match=message):
        put(there.port, in_rom=True)
    with board("") as there, pytest.raises(DeviceError, match="has no ROM file system"):
        put(there.port, in_rom=True)


def test_the_library_alone_goes_to_a_small_rom_and_what_hid_modules_there_goes(board):
    large = APPLICATION | {"/lib/large.mpy": b"x" * 20_000}
    with board("", rom=16 * 1024) as there:
        put(there.port, in_rom=True)
        plan, _ = put(there.port, large, in_rom=True)
        assert plan.rom and {"/lib/app.mpy", "/lib/large.mpy"} <= {*plan.write}
        with Link(there.port) as link:
            assert link.run("import os\nprint(os.listdir('/rom/lib'))").strip() == "['inflight']"
        assert not put(there.port, large, in_rom=True)[0].write


def test_a_rom_image_that_is_damaged_on_the_way_is_reported(board, monkeypatch):
    """Modules go there from the file system, and are imported from there."""
    code = bundle.files("unix")["/lib/inflight/packet.mpy"]
    places = {f"/lib/inflight/{name}.mpy" for name in ("__init__", "core", "packet", "client")}
    few = {path: data for path, data in bundle.files("unix").items() if path in places} | {"/main.py": b""}
    write, damaged = rom.write, code.replace(b"inflight.packet", b"inflight.packes")  # the name that tracebacks tell

    def origin():
        with Link(there.port) as link:
            return link.run("import inflight.packet\nprint(inflight.packet.__file__)").strip()

    with board("", rom=256 * KIB) as there:
        put(there.port, few)
        assert origin() == "/lib/inflight/packet.mpy"
        with monkeypatch.context() as patch:
            patch.setattr(rom, "write", lambda link, image: write(link, image.replace(code, damaged)))
            with pytest.raises(DeviceError, match="^/rom/lib/inflight/packet.mpy did not arrive as sent"):
                put(there.port, few, in_rom=True)
        plan, _ = put(there.port, few, in_rom=True)
        assert plan.rom and not any(path.endswith(".mpy") for path in plan.write)
        again, _ = put(there.port, few, in_rom=True)
        assert not (again.rom or again.write or again.stale) and again.same == len(few)
        assert origin() == "/rom/lib/inflight/packet.mpy" and not any(map(LIBRARY.match, flash(there.flash.parent)))

"""Flashing a board: an ESP32 by esptool, with a fake ROM bootloader; a Pico by its boot drive."""

import fcntl
import functools
import json
import os
import pty
from types import SimpleNamespace

import paho.mqtt.publish as publish
import pytest
from serial.tools import list_ports
from typer.testing import CliRunner

from host_tests.tools.boards.esp_rom import EspRom
from host_tests.tools.boards.made_firmware import CHIP_IDS, MB, esp_firmware, pico_firmware, stock_layout
from host_tests.tools.boards.mounted import mounted
from inflight_tools.boards import connected, flash
from inflight_tools.boards.build import bundle
from inflight_tools.boards.images.esp32 import Esp32Image, read_table
from inflight_tools.boards.images.esp32_port import Esp32Port, explain
from inflight_tools.boards.images.filesystem import build
from inflight_tools.boards.images.uf2 import Uf2Image
from inflight_tools.boards.images.variants import names, variant
from inflight_tools.cli import build as build_command

COMMAND = build_command()
SETTINGS = {"host": "broker.example", "wifi_ssid": "attic", "wifi_key": "very secret"}
ESP32 = variant("esp32")
MESSAGES = b"undelivered messages" * 1000
JOURNAL = 0x390000  # with 4 MB of flash
STOCK = esp_firmware()
FILES = {"/main.py": b"import app", "/config.json": b'{"host": "b"}'}


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a configuration, outside any repository."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(SETTINGS))
    return tmp_path


@pytest.fixture(scope="module", autouse=True)
def application():
    """It is compiled once for all tests."""
    compiled = functools.cache(bundle.files)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bundle, "files", lambda board, **of: dict(compiled(board, **of)))
        yield


def run(*words):
    """(exit status, stdout, stderr) of the command."""
    done = CliRunner().invoke(COMMAND, ["board", "flash", "--wait", "0", *map(str, words)], catch_exceptions=False)
    assert "very secret" not in done.stdout + done.stderr
    return done.exit_code, done.stdout, done.stderr


def refused(*words):
    """The error message of one line."""
    status, output, errors = run(*words)
    assert status == 1 and "Traceback" not in errors
    assert len(errors.splitlines()) == 1, errors
    return errors


def flashed(rom, image, erase=False):
    with Esp32Port(rom.port, image.variant.name) as port:
        flash.write(image, port, erase)


# --- an ESP32 ---


def test_a_bare_board_gets_everything_in_one_command(home):
    (home / "firmware.bin").write_bytes(esp_firmware())
    with EspRom() as rom:
        status, output, errors = run("--board", "esp32", "--port", rom.port, "--firmware", "firmware.bin")
        assert status == 0, errors
        table = read_table(bytes(rom.flash[0x8000:0x9000]), 4 * MB)
        assert [part.name for part in table] == ["nvs", "phy_init", "factory", "vfs", "mqtt"]
        assert json.dumps(SETTINGS).encode() in rom.flash[0x200000:JOURNAL]
        assert rom.flash[JOURNAL:] == b"\xff" * 0x70000
    assert "with an empty journal" in output


def test_the_flash_equals_the_image_file():
    image = Esp32Image(ESP32, esp_firmware(), FILES)
    with EspRom() as rom:
        flashed(rom, Esp32Image(ESP32, esp_firmware(), {f"/lib/old{i}": b"old" * 400 for i in range(99)}))
        rom.flash[0x300000:] = os.urandom(4096) * 256  # old content
        rom.flash[0x8000:0x9000] = b"\xff" * 0x1000
        flashed(rom, image)
        for what, at, content in image.pieces():
            assert rom.flash[at : at + len(content)] == content, what
        assert mounted(bytes(rom.flash[0x200000:JOURNAL])) == FILES
        assert rom.flash[JOURNAL:] == b"\xff" * 0x70000


@pytest.mark.parametrize("board", [name for name in names() if name in CHIP_IDS])
def test_each_variant_is_flashed_at_its_chips_boot_address(board):
    chosen = variant(board)
    firmware = esp_firmware(board, chosen.bootloader)
    with EspRom(board) as rom:
        flashed(rom, Esp32Image(chosen, firmware, FILES))
        start, table = chosen.bootloader, 0x8000 - chosen.bootloader
        assert rom.flash[start : start + 10_000] == firmware[:10_000]
        assert rom.flash[0x10000 : start + len(firmware)] == firmware[table + 0x8000 :]
        assert mounted(bytes(rom.flash[0x200000:JOURNAL])) == FILES


def test_flashing_again_keeps_the_journal(capsys):
    with EspRom() as rom:
        flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES))
        rom.flash[JOURNAL : JOURNAL + len(MESSAGES)] = MESSAGES
        rom.flash[0x9000:0x9010] = b"radio's settings"
        rom.erased.clear()
        newer = {"/main.py": b"import newer", "/config.json": b'{"host": "c"}'}
        flashed(rom, Esp32Image(ESP32, esp_firmware(size=200_000), newer))
        assert rom.flash[JOURNAL : JOURNAL + len(MESSAGES)] == MESSAGES
        assert rom.flash[0x9000:0x9010] == b"radio's settings"
        assert not any(sector * 4096 >= JOURNAL for sector in rom.erased)
        assert b"import newer" in rom.flash and b"import app" not in rom.flash
    assert "with its journal as it was" in capsys.readouterr().out


def test_a_journal_at_another_address_is_kept():
    with EspRom(flash_mb=8) as rom:
        flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES, 8))
        rom.flash[0x790000 : 0x790000 + len(MESSAGES)] = MESSAGES
        before = bytes(rom.flash)
        with pytest.raises(ValueError, match="journal is 448 KiB at 0x790000, .* --flash-mb and journal_kb as they"):
            flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES))
        assert rom.flash == before


def test_a_smaller_journal_is_kept(capsys):
    """At the end of the larger partition, where the board finds it; what is in front of it is blank."""
    with EspRom() as rom:
        flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES, journal_kb=64))
        rom.flash[0x3F0000 : 0x3F0000 + len(MESSAGES)] = MESSAGES
        rom.flash[0x3E0000:0x3F0000] = os.urandom(0x10000)  # of the file system
        flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES))
        assert rom.flash[0x3F0000 : 0x3F0000 + len(MESSAGES)] == MESSAGES
        assert rom.flash[JOURNAL:0x3F0000] == b"\xff" * 0x60000
        assert mounted(bytes(rom.flash[0x200000:JOURNAL])) == FILES
        before = bytes(rom.flash)
        with pytest.raises(ValueError, match="journal is 448 KiB at 0x390000, the image has 64 KiB at 0x3f0000"):
            flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES, journal_kb=64))
        assert rom.flash == before
    assert "with its journal as it was, 64 KiB" in capsys.readouterr().out


def with_journal_among_its_files(rom, table_says_vfs):
    layout = stock_layout(4)[: None if table_says_vfs else -1]
    rom.flash[0x8000:0x9000] = esp_firmware(base=0, layout=layout)[0x8000:0x9000]
    for at, part in build({"/main.py": b"", "/journal/0": MESSAGES[:4096]}, 0x200000, 32):
        rom.flash[0x200000 + at : 0x200000 + at + len(part)] = part


@pytest.mark.parametrize("table_says_vfs", [True, False])
def test_a_journal_among_the_files_is_not_overwritten(table_says_vfs):
    with EspRom() as rom:
        with_journal_among_its_files(rom, table_says_vfs)
        before = bytes(rom.flash)
        with pytest.raises(ValueError, match="among its files: `inflight board deploy` keeps it; --erase"):
            flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES))
        assert rom.flash == before
        flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES), erase=True)
        assert mounted(bytes(rom.flash[0x200000:JOURNAL])) == FILES


def test_an_unreadable_file_system_is_kept():
    with EspRom() as rom, Esp32Port(rom.port, "esp32") as port:
        with_journal_among_its_files(rom, True)
        before, read = bytes(rom.flash), port.read

        def fails(address, size):
            if address >= 0x200000:
                raise ValueError("the cable is loose")
            return read(address, size)

        port.read = fails
        with pytest.raises(ValueError, match="the cable is loose"):
            flash.write(Esp32Image(ESP32, STOCK, FILES), port, False)
        assert rom.flash == before


def test_a_board_with_stock_micropython_is_overwritten():
    with EspRom() as rom:
        rom.flash[0x1000 : 0x1000 + len(STOCK)] = STOCK
        for at, part in build({"/boot.py": b"#", "/notes/journal": b"somebody's"}, 0x200000, 32):
            rom.flash[0x200000 + at : 0x200000 + at + len(part)] = part
        flashed(rom, Esp32Image(ESP32, STOCK, FILES))
        assert mounted(bytes(rom.flash[0x200000:JOURNAL])) == FILES


def test_a_board_that_is_unplugged_keeps_its_journal():
    with EspRom() as rom:
        flashed(rom, Esp32Image(ESP32, STOCK, FILES))
        rom.flash[JOURNAL : JOURNAL + len(MESSAGES)] = MESSAGES
        rom.unplugged_after = 2
        newer = Esp32Image(ESP32, esp_firmware(size=200_000), FILES)
        with pytest.raises(ValueError, match="the board went away: connect it and flash it again"):
            flashed(rom, newer)
    with EspRom() as again:
        again.flash[:] = rom.flash
        flashed(again, newer)
        assert again.flash[JOURNAL : JOURNAL + len(MESSAGES)] == MESSAGES
        assert mounted(bytes(again.flash[0x200000:JOURNAL])) == FILES


def test_erase_starts_afresh(capsys):
    with EspRom() as rom:
        flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES))
        rom.flash[JOURNAL : JOURNAL + len(MESSAGES)] = MESSAGES
        flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES), erase=True)
        assert rom.flash[JOURNAL:] == b"\xff" * 0x70000
    assert "with an empty journal" in capsys.readouterr().out


def test_a_table_that_cannot_be_read_may_hide_a_journal():
    with EspRom() as rom:
        rom.flash[0x8000:0x9000] = os.urandom(0x1000)  # as an encrypted flash looks
        before = bytes(rom.flash)
        with pytest.raises(ValueError, match="on the board, the partition table cannot be read.*; --erase"):
            flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES))
        assert rom.flash == before


def test_a_board_with_less_flash_than_the_image():
    with EspRom(flash_mb=2) as rom:
        with pytest.raises(ValueError, match="the board has 2 MB of flash, the image is for 4: --flash-mb 2"):
            flashed(rom, Esp32Image(ESP32, esp_firmware(), FILES))
        assert rom.erased == []


def test_another_chip_on_the_port(home):
    (home / "firmware.bin").write_bytes(esp_firmware())
    with EspRom("esp32s2") as rom:
        problem = refused("--board", "esp32", "--port", rom.port, "--firmware", "firmware.bin")
        assert rom.erased == []
    assert "is an ESP32-S2, not an ESP32: name the right one with --board" in problem


@pytest.fixture
def terminal(home):
    """The slave end of a pseudo terminal without a board."""
    (home / "firmware.bin").write_bytes(esp_firmware())
    master, slave = pty.openpty()
    yield slave
    os.close(slave)
    os.close(master)


def test_a_port_without_a_board(terminal):
    name = os.ttyname(terminal)
    problem = refused("--board", "esp32", "--port", name, "--firmware", "firmware.bin")
    assert f"no answer on {name}: hold the board's BOOT button" in problem


def test_a_busy_port(terminal):
    name = os.ttyname(terminal)
    fcntl.flock(terminal, fcntl.LOCK_EX)  # as every serial program locks its port
    problem = refused("--board", "esp32", "--port", name, "--firmware", "firmware.bin")
    assert f"{name} is busy: close the terminal" in problem


def test_a_port_that_does_not_exist(home):
    (home / "firmware.bin").write_bytes(esp_firmware())
    words = ("--board", "esp32", "--firmware", "firmware.bin")
    assert "no port /dev/ttyNONE: is the board connected?" in refused(*words, "--port", "/dev/ttyNONE")
    assert "which port? --port /dev/ttyUSB0" in refused(*words)
    assert "no board: connect one, a Pico while you hold its BOOTSEL button" in refused("--firmware", "firmware.bin")


def test_a_port_without_permission():
    text = "Could not open /dev/ttyUSB0, the port is busy or doesn't exist.\n"
    text += "([Errno 13] Permission denied: '/dev/ttyUSB0')"
    assert explain("/dev/ttyUSB0", text).startswith("/dev/ttyUSB0: permission denied: add yourself to the group")


# --- which board, without its configuration ---


def connect(monkeypatch, *ports, drive=None):
    """Serial ports of USB, (name, vendor), and a boot drive."""
    found = [SimpleNamespace(device=name, vid=vendor) for name, vendor in (*ports, ("/dev/ttyS0", None))]
    monkeypatch.setattr(list_ports, "comports", lambda: found)
    monkeypatch.setattr(connected, "mounted", lambda label: drive if label == "RPI-RP2" else None)


@pytest.mark.parametrize("board", [name for name in names() if name in CHIP_IDS])
def test_the_one_that_is_connected_is_found(monkeypatch, board):
    with EspRom(board) as rom:
        connect(monkeypatch, (rom.port, 0x10C4))
        assert connected.find(None, None) == (variant(board), rom.port)
        assert rom.erased == []


def test_a_boot_drive_is_found(drive, monkeypatch):
    connect(monkeypatch, drive=drive)
    assert connected.find(None, None) == (variant("pico_w"), str(drive))
    assert connected.find("pico_w", None) == (variant("pico_w"), str(drive))
    (drive / "INFO_UF2.TXT").write_text("Board-ID: RP2350\r\n")
    assert connected.find(None, str(drive)) == (variant("pico2_w"), str(drive))
    (drive / "INFO_UF2.TXT").write_text("Board-ID: SAMD21\r\n")
    with pytest.raises(ValueError, match="is an SAMD21: --board takes esp32, "):
        connected.find(None, str(drive))


def test_several_boards_or_one_that_does_not_tell(drive, monkeypatch):
    pico = 0x2E8A
    connect(monkeypatch, ("/dev/ttyUSB0", 0x10C4), ("/dev/ttyACM0", pico), drive=drive)
    with pytest.raises(ValueError, match="which board[?] There are .*drive, /dev/ttyUSB0, /dev/ttyACM0: name one with"):
        connected.find(None, None)
    assert connected.find("esp32", None) == (variant("esp32"), "/dev/ttyUSB0")
    assert connected.find("pico2_w", None) == (variant("pico2_w"), None)
    with pytest.raises(ValueError, match="the board on /dev/ttyACM0 is a Pico: --board pico_w, or"):
        connected.find(None, "/dev/ttyACM0")


def test_without_a_configuration_the_board_opens_its_set_up(home, monkeypatch):
    (home / "firmware.bin").write_bytes(esp_firmware())
    (home / "config.json").unlink()
    with EspRom() as rom:
        connect(monkeypatch, (rom.port, 0x10C4))
        status, output, errors = run("--firmware", "firmware.bin")
        assert status == 0, errors
        assert b"very secret" not in rom.flash and b"setup" in rom.flash
    assert "there is no configuration: the board opens its set-up" in output
    assert "--ca, --cert and --key belong to a configuration" in refused(
        "--board", "esp32", "--firmware", "firmware.bin", "--ca", "firmware.bin"
    )


# --- until the birth message ---


def status(broker, device, **fields):
    body = json.dumps({"state": "online", "firmware": "1", **fields})
    publish.single(f"inflight/{device}/status", body, qos=1, retain=True, hostname="127.0.0.1", port=broker.port)


def configure(home, broker, **fields):
    (home / "config.json").write_text(json.dumps({"host": "127.0.0.1", "port": broker.port, **fields}))


def test_an_esp32_is_awaited_by_its_identity(home, mosquitto, monkeypatch):
    broker = mosquitto()
    configure(home, broker)
    (home / "firmware.bin").write_bytes(esp_firmware())
    status(broker, "000000000000", seq=1, epoch=7)

    def write(image, port, erase):
        status(broker, "another", seq=1, epoch=9)
        status(broker, port.identity(), seq=2, epoch=7, firmware="3")

    monkeypatch.setattr(flash, "write", write)
    with EspRom() as rom:
        code, output, errors = run("--port", rom.port, "--firmware", "firmware.bin", "--wait", 240)
    assert code == 0, errors
    assert output.splitlines()[-1] == "000000000000 is online, firmware 3"


def test_a_pico_is_awaited_by_its_new_journal(drive, mosquitto, monkeypatch):
    broker = mosquitto()
    configure(drive.parent, broker)
    status(broker, "another", seq=1, epoch=7)
    written = flash.uf2

    def uf2(*arguments):
        written(*arguments)
        status(broker, "another", seq=2, epoch=7)
        status(broker, "fresh", seq=1, epoch=8)

    monkeypatch.setattr(flash, "uf2", uf2)
    code, output, errors = run(*PICO, "--port", drive, "--wait", 240)
    assert code == 0, errors
    assert output.splitlines()[-1] == "fresh is online, firmware 1"


def test_no_birth_message_is_a_failure(drive, mosquitto):
    broker = mosquitto()
    configure(drive.parent, broker)
    told = refused(*PICO, "--port", drive, "--wait", 0.5)
    assert "no birth message at inflight/+/status on 127.0.0.1:" in told and "within 0.5 s: look at Wi-Fi" in told


def test_an_unreachable_broker_is_told_before_anything_is_written(drive, nobody):
    (drive.parent / "config.json").write_text(json.dumps({"host": "127.0.0.1", "port": nobody}))
    told = refused(*PICO, "--port", drive, "--wait", 5)
    assert "this computer does not reach the broker" in told and "--wait 0 not to wait" in told
    assert not (drive / "inflight.uf2").exists()


# --- errors before the port is opened ---


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--board", "esp32", "--firmware", "none.bin"], "no file none.bin: --firmware names"),
        (["--board", "esp32", "--config", "none.json"], "no file none.json: write one"),
        (["--board", "esp32", "--config", "bad.json"], "bad.json: qos: write a whole number from 1 to 2"),
        (["--board", "esp32", "--firmware", "config.json"], "this is not firmware"),
        (["--board", "esp32", "--firmware", "s3.bin"], "the firmware is for chip esp32s3, not for esp32"),
        (["--board", "esp32", "--firmware", "s3.bin", "--sha256", "0" * 64], "s3.bin: wrong SHA-256: it is "),
        (["--board", "esp32", "--firmware", "s3.bin", "--sha256", "0x12"], "--sha256: write the 64 hexadecimal digits"),
        (["--board", "esp32s3", "--firmware", "s3.bin", "--flash-mb", "5"], "--flash-mb 5: use one of 1, 2, 4, 8"),
    ],
)
def test_wrong_arguments(words, problem, home):
    (home / "s3.bin").write_bytes(esp_firmware("esp32s3", 0))
    (home / "bad.json").write_text('{"host": "b", "qos": 5}')
    assert f"FAILED: {problem}" in refused(*words, "--port", "/dev/ttyNONE")


# --- a Pico ---


@pytest.fixture
def drive(home):
    """A boot drive, and firmware for the board."""
    (home / "drive").mkdir()
    (home / "drive/INFO_UF2.TXT").write_text("UF2 Bootloader v3.0\r\nModel: Raspberry Pi RP2\r\nBoard-ID: RPI-RP2\r\n")
    (home / "firmware.uf2").write_bytes(pico_firmware())
    return home / "drive"


PICO = ("--board", "pico_w", "--firmware", "firmware.uf2")


def test_the_file_is_written_to_the_boot_drive_with_a_warning(drive):
    status, output, errors = run(*PICO, "--port", drive)
    assert status == 0, errors
    written = (drive / "inflight.uf2").read_bytes()
    assert written.startswith(b"UF2\n") and b"broker.example" in written
    assert "with undelivered messages in the board's journal; `inflight board deploy` keeps them" in output


def test_another_chip_s_boot_drive(drive):
    (drive / "INFO_UF2.TXT").write_text("UF2 Bootloader v1.0\r\nModel: Raspberry Pi RP2350\r\nBoard-ID: RP2350\r\n")
    assert "is an RP2350, not an RPI-RP2" in refused(*PICO, "--port", drive)
    assert not (drive / "inflight.uf2").exists()


def test_a_folder_without_boot_drive(drive):
    assert "is no boot drive: it has no INFO_UF2.TXT" in refused(*PICO, "--port", drive.parent)


def test_a_running_pico_may_hold_messages(drive):
    told = refused(*PICO, "--port", "/dev/ttyNONE")
    assert "in the board's journal: `inflight board deploy` keeps them, --erase goes ahead" in told
    assert "no port /dev/ttyNONE" in refused(*PICO, "--port", "/dev/ttyNONE", "--erase")


def test_without_a_boot_drive_the_error_says_how_to_get_one(drive, monkeypatch):
    monkeypatch.setattr(flash, "mounted", lambda label: None)
    image = Uf2Image(variant("pico_w"), pico_firmware(), FILES)
    with pytest.raises(ValueError, match="hold the board's BOOTSEL button while you connect it, mount the drive RPI"):
        flash.uf2(image, None, False)

"""Flashing a board: an ESP32 by esptool, with a fake ROM bootloader; a Pico by its boot drive."""

import fcntl
import json
import os
import pty

import paho.mqtt.publish as publish
import pytest

from host_tests.thorough import more
from host_tests.tools.boards.esp_rom import EspRom
from host_tests.tools.boards.made_firmware import MB, esp_firmware, pico_firmware, stock_layout
from host_tests.tools.boards.mounted import mounted
from host_tests.tools.command import inflight
from inflight_tools.boards import connected, flash
from inflight_tools.boards.build import bundle
from inflight_tools.boards.images.esp32 import Esp32Image, read_table
from inflight_tools.boards.images.esp32_port import Esp32Port, explain
from inflight_tools.boards.images.filesystem import build
from inflight_tools.boards.images.uf2 import Uf2Image
from inflight_tools.boards.images.variants import variant

SETTINGS = {"host": "broker.example", "wifi_ssid": "attic", "wifi_key": "very secret"}
ESP32 = variant("esp32")
MESSAGES = b"undelivered messages" * 1000
JOURNAL = 0x390000  # with 4 MB of flash
STOCK = esp_firmware()
FILES = {"/main.py": b"import app", "/config.json": b'{"host": "b"}'}
IMAGE = Esp32Image(ESP32, STOCK, FILES)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A folder with a configuration and firmware, outside any repository."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(SETTINGS))
    (tmp_path / "firmware.bin").write_bytes(STOCK)
    return tmp_path


@pytest.fixture(autouse=True)
def application(monkeypatch):
    """It is small."""
    files = {"/boot.py": b"", "/main.py": b"import app", "/lib/setup.mpy": b"setup"}
    monkeypatch.setattr(bundle, "files", lambda board, **of: dict(files))


def run(*words):
    """(exit status, stdout, stderr) of the command."""
    done = inflight("board", "flash", "--wait", 0, *words)
    assert "very secret" not in done.stdout + done.stderr
    return done.exit_code, done.stdout, done.stderr


def refused(*words):
    """The error message of one line."""
    status, output, errors = run(*words)
    assert status == 1 and "Traceback" not in errors
    assert len(errors.splitlines()) == 1, errors
    return errors


class Port:
    """A board on its port, as Esp32Port has it; `erased`: the sectors that were written or erased."""

    def __init__(self, flash_mb=4):
        self.flash = bytearray(b"\xff") * (flash_mb << 20)
        self.erased = set()

    def flash_size(self):
        return len(self.flash)

    def read(self, address, size):
        return bytes(self.flash[address : address + size])

    def write(self, address, content):
        self.erased.update(range(address // 4096, -(-(address + len(content)) // 4096)))
        self.flash[address : address + len(content)] = content

    def erase(self):
        self.write(0, b"\xff" * len(self.flash))

    def restart(self):
        pass


def flashed(port, image, erase=False):
    """A board that the image was written to."""
    flash.write(image, port, erase)
    return port


def by_esptool(rom, image):
    with Esp32Port(rom.port, image.variant.name) as port:
        flash.write(image, port, False)


@pytest.fixture
def port():
    """A board with an image, radio's settings and a journal with messages."""
    found = flashed(Port(), IMAGE)
    found.flash[JOURNAL : JOURNAL + len(MESSAGES)] = MESSAGES
    found.flash[0x9000:0x9010] = b"radio's settings"
    found.erased.clear()
    return found


# --- an ESP32 ---


def test_a_bare_board_gets_everything_in_one_command(home):
    with EspRom() as rom:
        status, output, errors = run("--board", "esp32", "--port", rom.port, "--firmware", "firmware.bin")
        assert status == 0, errors
        table = read_table(bytes(rom.flash[0x8000:0x9000]), 4 * MB)
        assert [part.name for part in table] == ["nvs", "phy_init", "factory", "vfs", "mqtt"]
        assert json.dumps(SETTINGS).encode() in rom.flash[0x200000:JOURNAL]
        assert rom.flash[JOURNAL:] == b"\xff" * 0x70000
    assert "with an empty journal" in output


@pytest.mark.parametrize("board", ["esp32", "esp32c3", *more("esp32s2", "esp32s3", "esp32c6")])
def test_the_flash_equals_the_image_file(board):
    """At the boot address of its chip, over what was there."""
    chosen = variant(board)
    image = Esp32Image(chosen, esp_firmware(board, chosen.bootloader), FILES)
    with EspRom(board) as rom:
        rom.flash[0x300000:] = os.urandom(4096) * 256
        by_esptool(rom, image)
        for what, at, content in image.pieces():
            assert rom.flash[at : at + len(content)] == content, what
        assert mounted(bytes(rom.flash[0x200000:JOURNAL])) == FILES
        assert rom.flash[JOURNAL:] == b"\xff" * 0x70000


def test_flashing_again_keeps_the_journal(port, capsys):
    newer = {"/main.py": b"import newer", "/config.json": b'{"host": "c"}'}
    flashed(port, Esp32Image(ESP32, esp_firmware(size=200_000), newer))
    assert port.flash[JOURNAL : JOURNAL + len(MESSAGES)] == MESSAGES
    assert port.flash[0x9000:0x9010] == b"radio's settings"
    assert max(port.erased) * 4096 < JOURNAL
    assert b"import newer" in port.flash and b"import app" not in port.flash
    assert "with its journal as it was" in capsys.readouterr().out
    flashed(port, IMAGE, erase=True)
    assert port.flash[JOURNAL:] == b"\xff" * 0x70000
    assert "with an empty journal" in capsys.readouterr().out


def test_a_smaller_journal_is_kept(capsys):
    """At the end of the larger partition, where the board finds it; what is in front of it is blank."""
    small = Esp32Image(ESP32, STOCK, FILES, journal_kb=64)
    port = flashed(Port(), small)
    port.flash[0x3F0000 : 0x3F0000 + len(MESSAGES)] = MESSAGES
    port.flash[0x3E0000:0x3F0000] = os.urandom(0x10000)  # of the file system
    flashed(port, IMAGE)
    assert port.flash[0x3F0000 : 0x3F0000 + len(MESSAGES)] == MESSAGES
    assert port.flash[JOURNAL:0x3F0000] == b"\xff" * 0x60000
    assert mounted(bytes(port.flash[0x200000:JOURNAL])) == FILES
    refused_by(port, small, "journal is 448 KiB at 0x390000, the image has 64 KiB at 0x3f0000")
    assert "with its journal as it was, 64 KiB" in capsys.readouterr().out


def refused_by(port, image, problem):
    before = bytes(port.flash)
    with pytest.raises(ValueError, match=problem):
        flashed(port, image)
    assert port.flash == before


def with_journal_among_its_files(table_says_vfs=True):
    port = Port()
    layout = stock_layout(4)[: None if table_says_vfs else -1]
    port.flash[0x8000:0x9000] = esp_firmware(base=0, layout=layout)[0x8000:0x9000]
    for at, part in build({"/main.py": b"", "/journal/0": MESSAGES[:4096]}, 0x200000, 32):
        port.flash[0x200000 + at : 0x200000 + at + len(part)] = part
    return port


@pytest.mark.parametrize("table_says_vfs", [True, False])
def test_a_journal_among_the_files_is_not_overwritten(table_says_vfs):
    port = with_journal_among_its_files(table_says_vfs)
    refused_by(port, IMAGE, "among its files: `inflight board deploy` keeps it; --erase")
    flashed(port, IMAGE, erase=True)
    assert mounted(bytes(port.flash[0x200000:JOURNAL])) == FILES
    stock = Port()  # a board with MicroPython's own firmware is overwritten
    stock.flash[0x1000 : 0x1000 + len(STOCK)] = STOCK
    for at, part in build({"/boot.py": b"#", "/notes/journal": b"somebody's"}, 0x200000, 32):
        stock.flash[0x200000 + at : 0x200000 + at + len(part)] = part
    flashed(stock, IMAGE)


def test_what_may_hide_a_journal_is_not_overwritten():
    larger = flashed(Port(8), Esp32Image(ESP32, STOCK, FILES, 8))
    refused_by(larger, IMAGE, "journal is 448 KiB at 0x790000, .* --flash-mb and journal_kb as they")
    encrypted = Port()
    encrypted.flash[0x8000:0x9000] = os.urandom(0x1000)  # as an encrypted flash looks
    refused_by(encrypted, IMAGE, "on the board, the partition table cannot be read.*; --erase")
    refused_by(Port(2), IMAGE, "the board has 2 MB of flash, the image is for 4: --flash-mb 2")
    loose, read = with_journal_among_its_files(), Port.read

    def fails(address, size):
        if address >= 0x200000:
            raise ValueError("the cable is loose")
        return read(loose, address, size)

    loose.read = fails
    refused_by(loose, IMAGE, "the cable is loose")


def test_a_board_that_is_unplugged_keeps_its_journal(port):
    newer = Esp32Image(ESP32, esp_firmware(size=200_000), FILES)
    with EspRom() as rom:
        rom.flash[:] = port.flash
        rom.unplugged_after = 2
        with pytest.raises(ValueError, match="the board went away: connect it and flash it again"):
            by_esptool(rom, newer)
    again = Port()
    again.flash[:] = rom.flash
    flashed(again, newer)
    assert again.flash[JOURNAL : JOURNAL + len(MESSAGES)] == MESSAGES
    assert mounted(bytes(again.flash[0x200000:JOURNAL])) == FILES


def test_another_chip_on_the_port(home):
    with EspRom("esp32s2") as rom:
        problem = refused("--board", "esp32", "--port", rom.port, "--firmware", "firmware.bin")
        assert rom.erased == []
    assert "is an ESP32-S2, not an ESP32: name the right one with --board" in problem


def test_ports_that_cannot_be_used(home):
    """Without a board, busy, none, without permission."""
    master, slave = pty.openpty()
    name = os.ttyname(slave)
    words = ("--board", "esp32", "--firmware", "firmware.bin")
    assert f"no answer on {name}: hold the board's BOOT button" in refused(*words, "--port", name)
    fcntl.flock(slave, fcntl.LOCK_EX)  # as every serial program locks its port
    assert f"{name} is busy: close the terminal" in refused(*words, "--port", name)
    os.close(slave)
    os.close(master)
    assert "no port /dev/ttyNONE: is the board connected?" in refused(*words, "--port", "/dev/ttyNONE")
    assert "which port? --port /dev/ttyUSB0" in refused(*words)
    assert "no board: connect one, a Pico while you hold its BOOTSEL button" in refused("--firmware", "firmware.bin")
    text = "Could not open /dev/ttyUSB0, the port is busy or doesn't exist.\n"
    text += "([Errno 13] Permission denied: '/dev/ttyUSB0')"
    assert explain("/dev/ttyUSB0", text).startswith("/dev/ttyUSB0: permission denied: add yourself to the group")


# --- which board, without its configuration ---


@pytest.mark.parametrize("board", ["esp32c3", *more("esp32", "esp32s2", "esp32s3", "esp32c6")])
def test_the_one_that_is_connected_is_found(connect, board):
    with EspRom(board) as rom:
        connect((rom.port, 0x10C4))
        assert connected.find(None, None) == (variant(board), rom.port)
        assert rom.erased == []


def test_a_boot_drive_is_found(drive, connect):
    connect(drive=drive)
    assert connected.find(None, None) == (variant("pico_w"), str(drive))
    assert connected.find("pico_w", None) == (variant("pico_w"), str(drive))
    (drive / "INFO_UF2.TXT").write_text("Board-ID: RP2350\r\n")
    assert connected.find(None, str(drive)) == (variant("pico2_w"), str(drive))
    (drive / "INFO_UF2.TXT").write_text("Board-ID: SAMD21\r\n")
    with pytest.raises(ValueError, match="is an SAMD21: --board takes esp32, "):
        connected.find(None, str(drive))


def test_several_boards_or_one_that_does_not_tell(drive, connect):
    pico = 0x2E8A
    connect(("/dev/ttyUSB0", 0x10C4), ("/dev/ttyACM0", pico), drive=drive)
    with pytest.raises(ValueError, match="which board[?] There are .*drive, /dev/ttyUSB0, /dev/ttyACM0: name one with"):
        connected.find(None, None)
    assert connected.find("esp32", None) == (variant("esp32"), "/dev/ttyUSB0")
    assert connected.find("pico2_w", None) == (variant("pico2_w"), None)
    with pytest.raises(ValueError, match="the board on /dev/ttyACM0 is a Pico: --board pico_w, or"):
        connected.find(None, "/dev/ttyACM0")


def test_without_a_configuration_the_board_opens_its_set_up(home, connect):
    (home / "config.json").unlink()
    with EspRom() as rom:
        connect((rom.port, 0x10C4))
        status, output, errors = run("--firmware", "firmware.bin")
        assert status == 0, errors
        assert b"very secret" not in rom.flash and b"setup" in rom.flash
    assert "there is no configuration: the board opens its set-up" in output
    told = refused("--board", "esp32", "--firmware", "firmware.bin", "--ca", "firmware.bin")
    assert "--ca, --cert and --key belong to a configuration" in told


# --- until the birth message ---


def status(broker, device, **fields):
    body = json.dumps({"state": "online", "firmware": "1", **fields})
    publish.single(f"inflight/{device}/status", body, qos=1, retain=True, hostname="127.0.0.1", port=broker.port)


def configure(home, broker, **fields):
    (home / "config.json").write_text(json.dumps({"host": "127.0.0.1", "port": broker.port, **fields}))


def test_an_esp32_is_awaited_by_its_identity(home, mosquitto, monkeypatch):
    broker = mosquitto()
    configure(home, broker)
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


def test_what_is_no_boot_drive_of_the_board(drive, monkeypatch):
    assert "is no boot drive: it has no INFO_UF2.TXT" in refused(*PICO, "--port", drive.parent)
    (drive / "INFO_UF2.TXT").write_text("UF2 Bootloader v1.0\r\nModel: Raspberry Pi RP2350\r\nBoard-ID: RP2350\r\n")
    assert "is an RP2350, not an RPI-RP2" in refused(*PICO, "--port", drive)
    assert not (drive / "inflight.uf2").exists()
    told = refused(*PICO, "--port", "/dev/ttyNONE")  # a Pico that runs may hold messages
    assert "in the board's journal: `inflight board deploy` keeps them, --erase goes ahead" in told
    assert "no port /dev/ttyNONE" in refused(*PICO, "--port", "/dev/ttyNONE", "--erase")
    monkeypatch.setattr(flash, "mounted", lambda label: None)
    image = Uf2Image(variant("pico_w"), pico_firmware(), FILES)
    with pytest.raises(ValueError, match="hold the board's BOOTSEL button while you connect it, mount the drive RPI"):
        flash.uf2(image, None, False)

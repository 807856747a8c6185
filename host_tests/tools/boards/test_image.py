"""Images for ESP32 boards, checked with esptool and with MicroPython's littlefs."""

import gc
import hashlib
import json
import subprocess
import sys
import time

import pytest

import slot
import update_record
from host_tests.thorough import more
from host_tests.tools.boards.made_firmware import CHIP_IDS, MB, OLD_BANNER, esp_application, esp_firmware
from host_tests.tools.boards.mounted import mounted, on_micropython
from host_tests.tools.command import inflight
from inflight_tools.boards import slots
from inflight_tools.boards.build import bundle
from inflight_tools.boards.device.files import RECORD, sha
from inflight_tools.boards.images.board_image import make
from inflight_tools.boards.images.esp32 import Esp32Image, application, read_table
from inflight_tools.boards.images.filesystem import build
from inflight_tools.boards.images.outage import bridged_s, told
from inflight_tools.boards.images.variants import variant
from inflight_tools.cache import write_atomic, write_private
from inflight_tools.settings import configured

FILES = {
    "/main.py": b"import app",
    "/config.json": b'{"host": "b"}',
    "/lib/inflight/journal.mpy": bytes(range(256)) * 60,
    "/lib/app.mpy": b"M" * 5000,
    "/ca.der": b"\x30" + b"\xff" * 900,
}
ESP32 = variant("esp32")
FIRMWARE_SIZE = 0x198710  # that of MicroPython 1.26


def partitions(image):
    """{name: (offset, size)} in the finished file."""
    data = image.file()[0x8000 - image.base :][:0x1000]
    return {part.name: (part.offset, part.size) for part in read_table(data, image.flash_size)}


def content(image, name):
    offset, size = partitions(image)[name]
    return image.file()[offset - image.base :][:size]


@pytest.mark.parametrize("board", ["esp32", "esp32c3", *more("esp32s2", "esp32s3", "esp32c6")])
def test_the_image_of_each_variant_is_valid_for_its_chip(board, tmp_path):
    chosen, flash_mb = variant(board), 16 if board == "esp32c3" else 4
    image = Esp32Image(chosen, esp_firmware(board, chosen.bootloader), FILES, flash_mb)
    (tmp_path / "image.bin").write_bytes(image.file())
    command = [sys.executable, "-m", "esptool", "image-info", str(tmp_path / "image.bin")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Chip ID: {CHIP_IDS[board]} " in done.stdout and f"Flash size: {flash_mb}MB" in done.stdout
    assert done.stdout.count("(valid)") == 2
    assert len(image.file()) == flash_mb * MB - chosen.bootloader
    assert partitions(image)["mqtt"] == (flash_mb * MB - 0x70000, 0x70000)
    assert partitions(image)["vfs"] == (0x200000, (flash_mb - 2) * MB - 0x70000)


def test_partitions_of_journal_and_file_system():
    image = Esp32Image(ESP32, esp_firmware(), FILES)
    assert partitions(image) == {
        "nvs": (0x9000, 0x6000),
        "phy_init": (0xF000, 0x1000),
        "factory": (0x10000, 0x1F0000),
        "vfs": (0x200000, 0x190000),
        "mqtt": (0x390000, 0x70000),
    }
    assert image.journal.type_name == "data" and image.journal.subtype_name not in ("fat", "nvs", "phy", "ota")
    assert content(image, "mqtt") == b"\xff" * 0x70000
    written = {"/lib/more.mpy": b"new" * 3000}
    assert mounted(content(image, "vfs"), write=written) == FILES | written


def test_a_journal_of_another_size(tmp_path):
    """As the configuration says, in whole blocks; the file system gets less, also if the firmware grows: the journal
    keeps its address."""
    config = tmp_path / "config.json"
    config.write_text('{"host": "broker.example", "wifi_ssid": "net", "wifi_key": "12345678", "journal_kb": 1003}')
    firmware = tmp_path / "firmware.bin"
    firmware.write_bytes(esp_firmware())
    sizes = partitions(make("esp32", str(firmware), None, config))
    assert sizes["mqtt"] == (4 * MB - 1000 * 1024, 1000 * 1024)
    assert sizes["vfs"] == (0x200000, 2 * MB - 1000 * 1024)
    bigger = [("nvs", "nvs", 0x6000), ("phy_init", "phy", 0x1000), ("factory", "factory", 0x280000)]
    later = partitions(Esp32Image(ESP32, esp_firmware(layout=bigger, size=2_200_000), FILES))
    assert later["mqtt"] == (0x390000, 0x70000) and later["vfs"] == (0x290000, 0x100000)


def starts_the_first(image):
    names = [name for name, _, _ in image.pieces()]
    assert names[:5] == ["bootloader", "partition table", "otadata", "ota_0", "files"]
    assert content(image, "otadata") == b"\xff" * 0x2000


def test_firmware_with_two_applications_starts_the_first():
    layout = [("nvs", "nvs", 0x4000), ("otadata", "ota", 0x2000), ("phy_init", "phy", 0x1000)]
    layout += [("ota_0", "ota_0", 0x180000), ("ota_1", "ota_1", 0x180000), ("vfs", "fat", 0xF0000)]
    image = Esp32Image(ESP32, esp_firmware(layout=layout), FILES)
    starts_the_first(image)
    assert partitions(Esp32Image(ESP32, esp_firmware(layout=layout), FILES, ota=True)) == partitions(image)


@pytest.mark.parametrize(
    "flash_mb, each, journal", [(4, 0x1A0000, 0x20000), (8, 0x200000, 0x70000), (16, 0x200000, 0x70000)]
)
def test_two_partitions_for_firmware(flash_mb, each, journal):
    """The journal leaves space for two releases."""
    firmware = esp_firmware(size=FIRMWARE_SIZE)
    image = Esp32Image(ESP32, firmware, FILES, flash_mb, ota=True)
    files = 0x10000 + 2 * each
    assert partitions(image) == {
        "nvs": (0x9000, 0x4000),
        "otadata": (0xD000, 0x2000),
        "phy_init": (0xF000, 0x1000),
        "ota_0": (0x10000, each),
        "ota_1": (0x10000 + each, each),
        "vfs": (files, flash_mb * MB - journal - files),
        "mqtt": (flash_mb * MB - journal, journal),
    }
    starts_the_first(image)
    assert content(image, "ota_0").startswith(application(ESP32, firmware))


def test_beside_two_firmwares_a_release_of_the_application_has_space(tmp_path):
    """What a cable brings is in slot a: as files it would need more blocks than there are."""
    (tmp_path / "config.json").write_text('{"host": "b", "wifi_ssid": "attic", "wifi_key": "secret-key"}')
    (tmp_path / "firmware").write_bytes(esp_firmware(size=FIRMWARE_SIZE))
    volume = content(make("esp32", tmp_path / "firmware", None, tmp_path / "config.json", ota=True), "vfs")
    files = mounted(volume)
    record = update_record.unpack(files["/update.0"])
    assert (record.current, record.release, record.is_tried) == ("a", 0, False)
    index = slots.index_of(slots.needed(bundle.files("esp32")))
    assert files["/a.image"].startswith(index)
    started = {path.removeprefix("/lib/").removesuffix(".mpy") for path in files if path.startswith("/lib/")}
    assert started.issuperset(slot._KEPT) and not any(path.startswith("inflight/") for path in started)
    release = {"/b.image": files["/a.image"], "/update.1": files["/update.0"]}
    assert mounted(volume, write=release) == files | release


def test_modules_that_a_device_would_take_for_each_other_are_refused():
    with pytest.raises(ValueError, match="the same CRC-32: rename one"):
        slots.index_of({"plumless.mpy": b"", "buckeroo.mpy": b""})


def test_the_application_knows_the_day_of_its_build(monkeypatch):
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    today = int(time.time()) // 86_400 * 86_400
    assert bundle.built() in [f"TIME = {day}\n" for day in (today - 86_400, today)]
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1772366400")  # 12:00
    assert bundle.built() == "TIME = 1772323200\n"


# Asks for each module as MicroPython's importer does, and reads it. Prints how often the flash was read.
_IMPORTER = """
import json, os, sys, vfs
from nor import NorFlash

class Flash(NorFlash):
    reads = 0

    def readblocks(self, *where):
        self.reads += 1
        super().readblocks(*where)

flash = Flash(512, 4096, 256)
with open("volume", "rb") as f:
    f.readinto(flash.data)
with open("names.json") as f:
    names = json.load(f)
vfs.umount("/")
vfs.mount(vfs.VfsLfs2(flash), "/")
flash.reads = 0
sys.path[:] = ["/lib"]
import launch
launch.main("")
for name in names:
    for folder in sys.path:
        try:
            os.stat(folder + "/" + name + ".mpy")
        except OSError:
            continue
        with open(folder + "/" + name + ".mpy", "rb") as f:
            f.read(500)
        break
    else:
        raise ImportError(name)
print(flash.reads)
"""


def test_modules_are_found_in_an_image_without_reading_folders(tmp_path):
    files = bundle.files("esp32")
    names = [path[5:-4] for path in files if path.startswith("/lib/") and not path.startswith("/lib/setup")]
    (tmp_path / "names.json").write_text(json.dumps(names))
    reads = []
    for brought in (files, slots.packed(files, "esp32")):
        volume = bytearray(b"\xff") * (512 * 4096)
        for at, data in build(brought, len(volume), 32):
            volume[at : at + len(data)] = data
        (tmp_path / "volume").write_bytes(volume)
        reads.append(int(on_micropython(_IMPORTER, tmp_path)))
    assert reads[1] * 10 < reads[0], reads


@pytest.fixture
def few(monkeypatch):
    """The application is a few files."""
    files = {"/boot.py": b"", "/main.py": b"import app", "/lib/app.mpy": b"app" * 1000}
    monkeypatch.setattr(bundle, "files", lambda folder, processor="": dict(files))
    return files


def test_the_command_writes_the_application_and_tells_what_it_wrote(tmp_path, monkeypatch, few):
    monkeypatch.delattr(gc, "mem_free", raising=False)  # fakes of boards have it, and health tells what it returns
    monkeypatch.chdir(tmp_path)
    config = b'{"host": "b", "wifi_ssid": "attic", "wifi_key": "very secret", "journal_kb": 64}'
    (tmp_path / "config.json").write_bytes(config)
    (tmp_path / "firmware.bin").write_bytes(esp_firmware())
    words = ["board", "image", "--board", "esp32", "--firmware", "firmware.bin", "--out", "new/it"]
    done, told = (inflight(*words, *more) for more in ([], ["--json"]))
    assert done.exit_code == told.exit_code == 0, done.output + told.output
    assert "very secret" not in done.output + told.output
    assert "mqtt       0x3f0000     64 KiB" in done.stdout
    made = (tmp_path / "new/it").read_bytes()
    assert (tmp_path / "new/it").stat().st_mode & 0o777 == 0o600
    assert json.loads(told.stdout) == {
        "board": "esp32",
        "path": "new/it",
        "bytes": len(made),
        "sha256": hashlib.sha256(made).hexdigest(),
        "outage_s": bridged_s(configured(config), 64),
    }
    # `deploy` compares this record with new files.
    brought = slots.packed(few, "esp32")
    record = json.dumps({path: sha(content) for path, content in brought.items()}).encode()
    assert mounted(made[0x200000 - 0x1000 : 0x3F0000 - 0x1000]) == brought | {"/config.json": config, RECORD: record}


@pytest.mark.parametrize("mode, then", [(None, 0o600), (0o644, 0o600), (0o400, 0o400)])
def test_only_the_owner_can_read_a_file_with_secrets(tmp_path, mode, then):
    made = tmp_path / "new/it"
    if mode is not None:
        write_atomic(made, "older", mode)
    write_private(made, b"secret")
    assert (made.stat().st_mode & 0o777, made.read_bytes()) == (then, b"secret")


def test_an_outage_that_the_journal_bridges():
    """The more space, the longer; a device that sleeps writes no health without a network."""

    def bridged(kb=64, **fields):
        return bridged_s(configured(json.dumps({"host": "b", "device": "246f28000001", **fields})), kb)

    usual = bridged()
    assert 9_000 < usual < 12_000 and 17 < usual / bridged(interval_ms=500) < 21
    assert usual * 4 < bridged(256) < usual * 6
    assert bridged(health_ms=60_000) == usual < bridged(health_ms=86_400_000)
    assert bridged(batch=1) == bridged(when_full="oldest") == bridged(qos=2) < usual / 5
    assert bridged(sleep_ms=600_000, batch=1) == bridged(sleep_ms=60_000, batch=1) * 10
    assert usual < bridged(sleep_ms=10_000) < usual * 1.1
    assert bridged(sleep_ms=10_000, batch=1) < bridged(sleep_ms=10_000, report_every=4) < usual
    assert bridged(sensors=[{"driver": "dht22", "pin": 4}]) > usual
    times = (119, 7199, 7200, 172_799, 172_800, 180_000)
    found = ["119 seconds", "119 minutes", "2 hours", "47 hours 59 minutes", "2 days", "2 days 2 hours"]
    assert [told(s) for s in times] == found


def damaged(data, at):
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


WHOLE, BIG = esp_firmware(), {"/big": bytes(3 * MB)}
NO_TABLE = "the firmware has no partition table: --firmware takes the whole one"
DAMAGED = "the firmware's application is damaged or cut short"
REFUSED = {
    "chip": (esp_firmware("esp32s3", 0), "the firmware is for chip esp32s3, not for esp32"),
    "html": (b"<html>not found</html>" * 3000, "this is not firmware: --firmware takes MicroPython's .bin file"),
    "empty": (b"", "this is not firmware"),
    "app": (esp_application("esp32", 500_000), NO_TABLE),
    "blank app": (esp_application("esp32", 500_000, fill=b"\xff\xff\xff\xff"), NO_TABLE),
    "truncated": (WHOLE[:-5000], DAMAGED),
    "no app": (WHOLE[: 0x10000 - 0x1000], DAMAGED),
    "bits": (damaged(WHOLE, 0x20000), DAMAGED),
    "bootloader": (damaged(WHOLE, 0x1000), "the firmware's bootloader is damaged or cut short"),
    "old": (esp_firmware(banner=OLD_BANNER), "the firmware is MicroPython 1.20: --firmware takes 1.22"),
    "silent": (esp_firmware(banner=b""), "the firmware does not tell its release: --firmware takes MicroPython 1.22"),
    "table": (damaged(WHOLE, 0x7030), "the partition table cannot be read: Checksum"),
    "flash": (WHOLE, "the firmware takes 2048 KiB of 2048 KiB of flash, the journal 64: no space", {"flash_mb": 2}),
    "files": (WHOLE, "the application, 3072 KiB, does not fit the file system, 1600 KiB", {"files": BIG}),
    "two": (esp_firmware(size=0x1E0000), "the firmware takes 4032 KiB of 4096 KiB of flash, the", {"ota": True}),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_wrong_or_does_not_fit_is_refused(what):
    firmware, problem, *options = REFUSED[what]
    with pytest.raises(ValueError, match="^" + problem) as e:
        Esp32Image(ESP32, firmware, **{"files": FILES} | dict(*options))
    assert "\n" not in str(e.value)

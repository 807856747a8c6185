"""A journal in pinned files while other files of the file system are written; another littlefs then reads the image."""

import json
import re
import subprocess
from binascii import crc32
from pathlib import Path

import littlefs
import pytest

from host_tests.thorough import more
from inflight.journal.journal import OUT, Journal
from nor import NorFlash
from tools import runtimes
from tools.runtimes import device_run

RUNTIMES = "micropython-x86"
SCRIPT = Path(__file__).parent / "device_scripts" / "pinned_churn.py"
SIZE = 4096
LIMIT_S = 240
NAMES = [name for name in runtimes.NAMES if name != "cpython"]  # it has no littlefs


def churned(found, image, seed, operations, page):
    """Runs the script. Returns the expected content of the image."""
    command = [*found.command("8M"), str(SCRIPT), str(image), str(seed), str(operations), str(page)]
    environment = device_run.environment(found, SCRIPT)
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, cwd=device_run.CHECKOUT
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def mounted(image, page):
    blocks = image.stat().st_size // SIZE
    fs = littlefs.LittleFS(block_size=SIZE, block_count=blocks, prog_size=page, read_size=32, mount=False)
    fs.context.buffer = bytearray(image.read_bytes())
    fs.mount()
    return fs


def content(fs, path):
    with fs.open(path, "rb") as file:
        return file.read()


def user_files(fs):
    """{path: [length, CRC-32]} of all files but the journal's."""
    found = {}
    for folder, _, names in fs.walk("/"):
        for name in names:
            path = f"{folder.rstrip('/')}/{name}"
            if not path.startswith("/journal/"):
                data = content(fs, path)
                found[path] = [len(data), crc32(data)]
    return found


def journal_of(fs, page):
    """Reads the journal from its files by the rules of FORMAT.md."""
    sectors = []
    for name in sorted(fs.listdir("/journal")):
        slot, n, block, changed, check = re.fullmatch(r"(..)(..)-([^-]+)-([^-]+)-(....)", name).groups()
        assert (int(slot, 16), int(n, 16)) == (len(sectors), 16)
        assert int(changed, 16) == int.from_bytes(fs.getattr(f"/journal/{name}", 1), "little") // 10**9
        assert int(check, 16) == crc32(name.rpartition("-")[0].encode()) & 0xFFFF
        at = int(block, 16) * SIZE
        sectors.append(content(fs, f"/journal/{name}"))
        assert sectors[-1] == fs.context.buffer[at : at + SIZE]
    assert len(sectors) == 16
    flash = NorFlash(16, SIZE, page)
    flash.data[:] = b"".join(sectors)
    return Journal(flash)


def messages(journal):
    found = {}
    at = journal.find(OUT, 0)
    while at >= 0:
        n = journal.found_len
        body = bytearray(n)
        journal.read(at, 0, body)
        assert body == bytes([journal.found_mid & 255]) * n
        found[str(journal.found_mid)] = n
        at = journal.find(OUT, journal.found_seq + 1)
    return found


@pytest.mark.parametrize("runtime", NAMES, indirect=True)
@pytest.mark.timeout(LIMIT_S + 60)
@pytest.mark.parametrize("page", [32, *more(256)])
def test_journal_and_file_system_do_not_corrupt_each_other(runtime, page, tmp_path, record_property):
    operations = 1_000 if runtime.name == "micropython-armhf" else 3_000  # emulated: slow
    image = tmp_path / "littlefs.bin"
    told = churned(runtime, image, 7 * page, operations, page)
    assert told["full"] > 3
    fs = mounted(image, page)
    assert user_files(fs) == told["files"]
    journal = journal_of(fs, page)
    assert messages(journal) == told["journal"]
    assert (journal.next_seq, journal.epoch, journal.damaged) == (told["seq"], told["epoch"], 0)
    assert journal.erases == told["erases"] > 16
    print(f"{operations} operations, full {told['full']} times, {journal.next_seq} messages, {journal.erases} erases")

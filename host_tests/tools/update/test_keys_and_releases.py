"""Keys and releases: what is written, printed, refused; a device accepts the signature and no other."""

import base64
import hashlib
import json
import math
import os
import shutil
import subprocess

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from littlefs import LittleFS

import announcement
from announcement import SIGNATURE, is_signed
from host_tests.absent import interpreter
from host_tests.tools.boards.made_firmware import CHIP_IDS, OLD_BANNER, esp_firmware
from host_tests.tools.command import inflight, succeeded
from inflight import __version__
from inflight.journal import journal
from inflight_tools.boards import slots
from inflight_tools.boards.build import bundle
from inflight_tools.boards.images.filesystem import BLOCK, build
from inflight_tools.boards.images.variants import variant
from inflight_tools.sources import search_path
from inflight_tools.update import keys, release
from tools.runtimes import runtime
from tools.setup.common import CHECKOUT

FILES = {"start.mpy": b"start" * 300, "inflight/core.mpy": b"core" * 3000, "empty.mpy": b""}


@pytest.fixture
def run(monkeypatch):
    monkeypatch.delenv(keys.PASSPHRASE, raising=False)
    return inflight


def modulus(key):
    return base64.b64decode(keys.public(key))


# --- keys ---


def test_a_key_is_made_once_and_printed_again(tmp_path, run):
    path = tmp_path / "k" / "release.key"
    first, second = run("keys", "--signing-key", path), run("keys", "--signing-key", path)
    assert first.exit_code == second.exit_code == 0
    fields = json.loads("{" + first.stdout + "}")
    assert first.stdout == second.stdout
    assert fields == {"update_keys": [keys.public(keys.load(path))]} and len(fields["update_keys"][0]) == 512
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_key_with_a_pass_phrase(tmp_path, run):
    path = tmp_path / "release.key"
    phrase = {keys.PASSPHRASE: "hunter2"}
    assert run("keys", "--signing-key", path, **phrase).exit_code == 0
    assert b"ENCRYPTED" in path.read_bytes()
    assert run("keys", "--signing-key", path, **phrase).exit_code == 0
    for variables in ({}, {keys.PASSPHRASE: "other"}):
        done = run("keys", "--signing-key", path, **variables)
        assert done.exit_code == 1 and keys.PASSPHRASE in done.stderr and "hunter2" not in done.stderr


def test_a_key_that_git_could_track(tmp_path, run, monkeypatch):
    """In a repository whose .gitignore does not list it, it would be published with the next commit."""
    if not shutil.which("git"):
        pytest.skip("no git")
    monkeypatch.chdir(tmp_path)
    subprocess.run(["git", "init", "-q"], check=True)
    note = "note: release.key is a private key and git does not ignore it: list it in .gitignore\n"
    for _ in range(2):
        done = run("keys")
        assert done.exit_code == 0 and note in done.stderr
    subprocess.run(["git", "add", "release.key"], check=True)
    done = run("keys")
    assert done.exit_code == 1 and "release.key is a private key and git tracks it" in done.stderr
    subprocess.run(["git", "rm", "-q", "--cached", "release.key"], check=True)
    (tmp_path / ".gitignore").write_text((CHECKOUT / ".gitignore").read_text())
    done = run("keys")
    assert done.exit_code == 0 and "git" not in done.stderr


def pem(key):
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


EC, SMALL = ec.generate_private_key(ec.SECP256R1()), rsa.generate_private_key(65537, 2048)
FIRMWARE = ("--board", "esp32", "--number", 7, "--firmware", "content")
REFUSED = {  # (content of the key's file, None: a right one; of the firmware; words; what is told)
    "no key": (b"", b"", ("--board", "unix", "--number", 1), "release.key"),
    "EC": (pem(EC), b"", ("--board", "unix", "--number", 1), "release.key: not an RSA key of 3072 bits"),
    "2048 bits": (pem(SMALL), b"", ("--board", "unix", "--number", 1), "release.key: not an RSA key of 3072 bits"),
    "number": (None, b"", ("--board", "pico_w", "--number", 0), "--number 0"),
    "accept": (None, b"", ("--board", "unix", "--number", 1, "--accept", "k" * 512), "--accept"),
    "accept firmware": (None, esp_firmware(), (*FIRMWARE, "--accept", keys.public(SMALL)), "--accept"),
    "pico": (None, b"", ("--board", "pico_w", *FIRMWARE[2:]), "comes by cable only"),
    "no firmware": (None, b"", FIRMWARE, "this is not firmware"),
    "chip": (None, esp_firmware("esp32s3", 0), FIRMWARE, "for chip esp32s3"),
    "short": (None, esp_firmware()[:-3], FIRMWARE, "damaged or cut short"),
    "old": (None, esp_firmware(banner=OLD_BANNER), FIRMWARE, "1.22 or newer"),
}


@pytest.mark.parametrize("private, firmware, words, reason", REFUSED.values(), ids=REFUSED)
def test_what_is_wrong_is_refused_in_one_line(tmp_path, run, monkeypatch, key, private, firmware, words, reason):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "release.key").write_bytes(pem(key) if private is None else private)
    (tmp_path / "content").write_bytes(firmware)
    done = run("release", *words, "--out", "x")
    status = 2 if reason.startswith("--") else 1
    assert done.exit_code == status and reason in done.stderr and done.stderr.count("\n") == 1
    assert not (tmp_path / "x").exists()


# --- what a device verifies ---


def test_a_block_with_room_for_forgery_is_refused(key):
    """With the exponent 3, blocks whose end is not compared could be forged: the whole block is compared."""
    assert is_signed(b"body", keys.sign(key, b"body"), modulus(key))
    numbers = key.private_numbers()
    digest = hashlib.sha256(b"body").digest()
    prefix = bytes.fromhex("3031300d060960864801650304020105000420")
    for block in (
        b"\0\1" + b"\xff" * 8 + b"\0" + prefix + digest + bytes(SIGNATURE - 62),
        b"\0\2" + b"\xff" * (SIGNATURE - 54) + b"\0" + prefix + digest,
        b"\0\1" + b"\xff" * (SIGNATURE - 36) + b"\0" + digest + b"\0",
    ):
        assert len(block) == SIGNATURE
        made = pow(int.from_bytes(block, "big"), numbers.d, numbers.public_numbers.n).to_bytes(SIGNATURE, "big")
        assert not is_signed(b"body", made, modulus(key))


# --- releases ---


def test_the_format_of_the_journal_is_the_librarys():
    assert announcement.JOURNAL == release.JOURNAL == journal._VERSION


def test_a_release_of_the_command(tmp_path, run):
    path = tmp_path / "release.key"
    run("keys", "--signing-key", path)
    words = ("release", "--board", "pico_w", "--number", 7, "--signing-key", path, "--out", tmp_path / "r", "--json")
    other = keys.public(rsa.generate_private_key(65537, 3072))
    told = json.loads(succeeded(*words, "--accept", other).stdout)
    made = release.load(tmp_path / "r")
    assert told == made.fields | {"path": str(tmp_path / "r")}
    assert (told["release"], told["board"], told["trial_s"]) == (7, "rp2040", 300)
    assert f"{__version__}+7".encode() in made.image and json.dumps([other]).encode() in made.image
    assert len(made.announcement) < 700
    assert taken(made) <= told["blocks"]


def free_blocks(path):
    """Blocks that a Pico with the files in `path`, as space_for_slot.py takes them, has for a release."""
    argv = [*runtime("micropython-x64").command("16m"), CHECKOUT / "host_tests/tools/update/space_for_slot.py"]
    places = [*search_path(CHECKOUT / "firmware"), CHECKOUT / "lib", CHECKOUT / "tools/reference/flash"]
    env = dict(os.environ, MICROPYPATH=":".join(map(str, places)))
    argv += [path, variant("pico_w").journal_kb * 1024 // BLOCK]
    return int(subprocess.run([*map(str, argv)], env=env, check=True, capture_output=True, text=True).stdout)


def test_a_pico_has_space_for_updates(tmp_path):
    """With the files that an image or a cable brings, its journal and a configuration there is space for two slots, if
    need be without those of the files that no slot needs: so for each update."""
    interpreter("micropython-x64")
    key = rsa.generate_private_key(65537, keys.BITS)
    blocks = release.make(release.application("rp2040", 1), key, 1, "rp2040").fields["blocks"]
    brought = slots.packed(bundle.files("rp2040"), "rp2040")
    # Blocks of the files of a cable that slot.reclaim() removes, about: those of more than 512 bytes.
    sizes = [len(content) for path, content in brought.items() if path.startswith(("/lib", "/app"))]
    kept_out = sum(math.ceil(size / 4096) for size in sizes if size > 512)
    brought |= {"/config.json": bytes(3000), "/ca.der": bytes(1500)}
    brought["/lib/inflight.json"] = json.dumps(dict.fromkeys(brought, "0" * 64)).encode()
    volume = bytearray(b"\xff") * (212 * BLOCK)
    for at, content in build(brought, len(volume), 256):
        volume[at : at + len(content)] = content
    image, cable = tmp_path / "image", tmp_path / "cable.json"
    image.write_bytes(volume)
    cable.write_text(json.dumps({path: len(content) for path, content in brought.items()}))
    for path in (image, cable):
        free = free_blocks(path)
        print(f"blocks: {blocks} of a release, {free} free beside what the {path.stem} brings")
        assert blocks <= free, path.stem
        assert blocks <= free - blocks + kept_out


def taken(made):
    """Blocks that the image of a Release takes in the file system of a Pico, when it comes in pieces."""
    fs = LittleFS(block_size=4096, block_count=212, read_size=32, prog_size=256, cache_size=1024, lookahead_size=32)
    blank = fs.used_block_count
    fs.open("/a.image", "wb").close()
    for at in range(0, len(made.image), 1000):
        with fs.open("/a.image", "ab") as file:
            file.write(made.image[at : at + 1000])
    return fs.used_block_count - blank


def test_a_release_of_firmware(tmp_path, run):
    path = tmp_path / "release.key"
    keys.generate(path)
    for board in ("esp32", "esp32s3"):
        (tmp_path / "firmware.bin").write_bytes(esp_firmware(board, variant(board).bootloader))
        words = ("release", "--board", board, "--number", 7, "--signing-key", path)
        done = succeeded(*words, "--firmware", tmp_path / "firmware.bin", "--out", tmp_path / "r", "--json")
        told = json.loads(done.stdout)
        made = release.load(tmp_path / "r")
        assert told == made.fields | {"path": str(tmp_path / "r")}
        assert (told["release"], told["board"], told["chip"]) == (7, "esp32", CHIP_IDS[board])
        assert made.image[0] == 0xE9 and hashlib.sha256(made.image).hexdigest() == told["sha256"]
        assert is_signed(made.announcement[:-SIGNATURE], made.announcement[-SIGNATURE:], modulus(keys.load(path)))

"""`make release`: what it refuses, that it makes the same bytes again, and that users can install what it made."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from dataclasses import replace

import pytest
import typer
from typer.testing import CliRunner

import inflight
from host_tests.docs.pages import blocks
from host_tests.tools.boards.made_firmware import esp_firmware, pico_firmware
from inflight_tools.boards.build import bundle
from inflight_tools.boards.images import variants
from inflight_tools.cache import write_below
from inflight_tools.installer import folder as installer
from tools import release
from tools.setup.common import CHECKOUT

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
WORKER = "release"
VERSION = inflight.__version__
DATED = f"# Changelog\n\n## [Unreleased]\n\n## [{VERSION}] - 2026-03-01\n\n- a change\n"


def git(folder, *words):
    """Runs git there; a commit has the same author and date each time."""
    who = [f"GIT_{role}_{field}" for role in ("AUTHOR", "COMMITTER") for field in ("NAME", "EMAIL", "DATE")]
    env = os.environ | dict(zip(who, ("x", "x@x.example", "2026-03-01T12:00:00Z") * 2, strict=True))
    return subprocess.run(["git", *words], cwd=folder, env=env, capture_output=True, text=True, check=True).stdout


def commit_all(folder):
    git(folder, "init", "-q")
    git(folder, "add", "--all")
    git(folder, "commit", "-q", "-m", "as it is")


def run(*words):
    app = typer.Typer()
    app.command()(release.main)
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)


# --- what is refused


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout that can become a release, as far as it is looked at."""
    folder = tmp_path / "checkout"
    write_below(folder, {"CHANGELOG.md": DATED.encode(), "README.md": b"", ".gitignore": b"/build/\n"})
    commit_all(folder)
    monkeypatch.setattr(release, "CHECKOUT", folder)
    return folder


def refused(folder, version=VERSION):
    done = run(version)
    assert done.exit_code == 1 and not done.stdout and not (folder / "build").exists()
    [line] = done.stderr.splitlines()
    return line


@pytest.mark.parametrize("version", ["", "1.0", "v1.0.0", "1.0.0rc1", "../1.0.0", "99.0.0"])
def test_a_version_that_this_is_not(checkout, version):
    release.check(VERSION)  # the checkout is ready for its own
    other = f"lib/inflight/__init__.py has {VERSION}, not 99.0.0: write 99.0.0 there"
    assert (other if version == "99.0.0" else "three numbers, VERSION=x.y.z") in refused(checkout, version)


WANTED = f"write ## [{VERSION}] - YYYY-MM-DD"


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("CHANGELOG.md", DATED.replace(VERSION, "0.0.9"), f"has no section {VERSION}: {WANTED}"),
        ("CHANGELOG.md", DATED.replace(" - 2026-03-01", ""), f"the section {VERSION} has no date: {WANTED}"),
        ("CHANGELOG.md", DATED.replace("2026-03-01", "2026-02-30"), "has no date"),
        ("README.md", "changed", "the checkout is not clean: commit or remove README.md"),
        ("new.py", "new", "the checkout is not clean: commit or remove new.py"),
        (".git", None, "FAILED: git"),
    ],
    ids=["no section", "no date", "no day", "changed", "new", "no git"],
)
def test_a_checkout_that_is_not_ready(checkout, name, text, problem):
    if text is None:
        shutil.rmtree(checkout / name)
    else:
        (checkout / name).write_text(text)
    assert problem in refused(checkout)


def test_the_changelog_has_sections_that_a_release_finds():
    text = (CHECKOUT / "CHANGELOG.md").read_text()
    sections = re.findall(r"^## \[(.+?)\](.*)$", text, re.M)
    assert sections[0] == ("Unreleased", "") and VERSION in dict(sections)
    older = [(version, date) for version, date in sections[1:] if version != VERSION]
    assert all(re.fullmatch(r" - \d{4}-\d\d-\d\d", date) for _, date in older)
    assert all("### Updating" in part for part in text.split("\n## [")[2:])


# --- what is made


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two folders with a release, made of the checkout as it is, at once, and independently of each other."""
    home = tmp_path_factory.mktemp("release")
    listed = git(CHECKOUT, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    there = [name for name in listed if name and (CHECKOUT / name).is_file()]
    write_below(home / "checkout", {name: (CHECKOUT / name).read_bytes() for name in there})
    write_below(home / "checkout", {"CHANGELOG.md": DATED.encode()})
    commit_all(home / "checkout")
    folders = [home / "first", home / "second"]
    started = []
    for number, folder in enumerate(folders):
        path = os.pathsep.join(str(home / "checkout" / name) for name in (".", "lib", "tools"))
        env = os.environ | {"PYTHONPATH": path, "PYTHONHASHSEED": str(number), "TZ": f"X{number}"}
        env |= {"INFLIGHT_CACHE": f"{folder}.cache"}
        command = [sys.executable, "-m", "tools.release", VERSION, "--without-images", "--out", str(folder)]
        options = {"umask": (0o022, 0o077)[number], "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        started.append(subprocess.Popen(command, cwd=home / "checkout", env=env, **options))
    for process, folder in zip(started, folders, strict=True):
        output, errors = process.communicate()
        assert (process.returncode, output, errors) == (0, f"{folder}\n", "")
    assert git(home / "checkout", "status", "--porcelain") == ""
    return folders


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_commit_gives_the_same_bytes(made):
    """The files in the wheel are as old as the commit; the sums name each file."""
    first, second = map(contents, made)
    assert sorted(first) == sorted(second)
    assert [name for name in first if first[name] != second[name]] == []
    with zipfile.ZipFile(wheel_of(made[0])) as wheel:
        assert {info.date_time for info in wheel.infolist()} == {(2026, 3, 1, 12, 0, 0)}
    lines = first.pop("SHA256SUMS").decode().splitlines()
    assert lines == [f"{hashlib.sha256(first[name]).hexdigest()}  {name}" for name in sorted(first)]
    assert f"inflight_mqtt-{VERSION}-py3-none-any.whl" in first


def wheel_of(folder):
    [found] = folder.glob("*.whl")
    return found


@pytest.mark.long("INFLIGHT_RELEASE")
def test_the_commands_for_boards_on_an_empty_machine(made, tmp_path):
    """A machine that had nothing but Python gets the wheel, and sees nothing of the checkout. A project is written,
    tested and released there; the library is written for a board."""
    probe = [sys.executable, "-m", "pip", "install", "-q", "--dry-run", "--no-deps", "--ignore-installed", "typer"]
    if subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("no package index answers here")
    ours = ("PYTHON", "INFLIGHT", "VIRTUAL_ENV")
    environ = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    environ |= {"COLUMNS": "200", "NO_COLOR": "1", "INFLIGHT_CACHE": str(tmp_path / "cache")}

    def run(*words):
        command = list(map(str, words))
        return subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True)

    env = tmp_path / "env"
    for words in (
        (sys.executable, "-m", "venv", env),
        (env / "bin/python", "-m", "pip", "install", "-q", f"{wheel_of(made[0])}[boards]"),
        (env / "bin/inflight", "new", "sensor", "moisture"),
        (env / "bin/inflight", "test", "moisture"),
        (env / "bin/inflight", "keys"),
        (env / "bin/inflight", "release", "--board", "pico_w", "--number", 1, "--app", "moisture/app"),
        (env / "bin/inflight", "board", "library", "library", "--board", "pico_w"),
    ):
        done = run(*words)
        assert done.returncode == 0, done.stdout + done.stderr
    assert run(env / "bin/inflight", "--version").stdout == f"inflight {VERSION}\n"
    missing = run(env / "bin/inflight", "fleet", "report", "--data", ".")
    assert missing.returncode == 1 and "pip install '.[fleet]'" in missing.stderr + missing.stdout


def test_the_sums_and_the_signature_as_the_page_says(made, tmp_path):
    """What docs/internals/releasing.md says, word by word; only the pass phrase is empty."""
    folder = shutil.copytree(made[0], tmp_path / "release")
    lines = [line for block in blocks("sh") if block.page.name == "releasing.md" for line in block.text.splitlines()]
    make_key, sign, verify, check = (line for line in lines if line.startswith(("ssh-keygen", "sha256sum")))

    def shell(line):
        return subprocess.run(line, shell=True, cwd=folder, capture_output=True, text=True)

    if not shutil.which("ssh-keygen"):
        pytest.skip("no ssh-keygen here")
    assert shell(f"{make_key} -N ''").returncode == 0
    public = (folder / "release-signing.pub").read_text()
    (folder / "release_signers").write_text(f"releases {public}")
    assert shell(sign).returncode == 0 and (folder / "SHA256SUMS.sig").is_file()
    assert shell(verify).returncode == 0 and shell(check).returncode == 0
    wheel_of(folder).write_bytes(b"another")
    assert shell(verify).returncode == 0 and shell(check).returncode != 0
    (folder / "SHA256SUMS").write_text("")
    assert shell(verify).returncode != 0


# --- images


@pytest.fixture
def firmware(tmp_path, monkeypatch):
    """A folder with firmware for two boards, which are all that there are, and nothing comes from a network."""
    folder = tmp_path / "firmware"
    contents = {"esp32": esp_firmware(), "pico_w": pico_firmware()}
    boards = [replace(variants.variant(name), firmware=name) for name in contents]
    boards = [replace(board, sha256=hashlib.sha256(contents[board.name]).hexdigest()) for board in boards]
    write_below(folder, contents)
    monkeypatch.setattr(variants, "variants", lambda: boards)
    monkeypatch.setattr(installer, "web_tools", lambda named: {"install-button.js": b"page"})
    files = {"/main.py": b"import app", "/lib/app.mpy": b"app" * 1000}
    monkeypatch.setattr(bundle, "files", lambda folder, processor="": dict(files))
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")  # the release sets it, and the tests after this one shall not see it
    monkeypatch.setenv("INFLIGHT_FIRMWARE", str(folder))
    monkeypatch.setenv("INFLIGHT_FIRMWARE_MIRROR", "http://127.0.0.1:9")  # nobody answers at this port
    monkeypatch.setattr(release, "build_wheel", lambda folder: None)
    return folder


def test_images_and_the_page_that_installs_them(checkout, firmware):
    done = run(VERSION)
    folder = checkout / f"build/release-{VERSION}"
    assert (done.exit_code, done.stdout, done.stderr) == (0, f"{folder}\n", "")
    files = contents(folder)
    images = {"images/inflight-esp32.bin", "images/inflight-pico_w.uf2"}
    assert {name for name in files if name.startswith("images/")} == images
    assert files["installer/inflight-pico_w.uf2"] == files["images/inflight-pico_w.uf2"]
    assert {"installer/index.html", "installer/manifest.json", "installer/web/install-button.js"} <= files.keys()
    assert run(VERSION).exit_code == 0 and contents(folder) == files  # again


def test_an_image_that_cannot_be_made_is_told_and_nothing_is_written(checkout, firmware):
    (firmware / "esp32").unlink()
    done = run(VERSION)
    told, error = done.stderr.splitlines()
    assert done.exit_code == 1 and not done.stdout
    assert told.startswith("no image for esp32: cannot download ") and told.endswith(f"put it into {firmware}")
    assert error.startswith("FAILED: no image for esp32, ") and "--without-images" in error
    assert list((checkout / "build").iterdir()) == []
    assert run(VERSION, "--without-images").exit_code == 0

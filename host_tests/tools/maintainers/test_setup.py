"""The set-up as a person meets it, offline: a mirror in a folder, a package made on the spot, a cache of its own."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import threading

import pytest

from tools.setup import __main__ as set_up
from tools.setup import common, environment, packages, sources
from tools.setup.common import SetupError

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
MIRROR = "http://mirror.example/debian"
STANZA = f"Types: deb\nURIs: {MIRROR}\nSuites: trixie\nComponents: main\n"


# --- where the mirror is


@pytest.mark.parametrize(
    "name, text, wanted",
    [
        (
            "sources.list",
            "# deb http://old.example/debian bookworm main\n"
            "deb cdrom:[Debian 12]/ bookworm main\ndeb http://flat.example/ ./\n"
            "deb-src http://source.example/debian bookworm main\n"
            f"deb [arch=amd64 signed-by=/some/key] {MIRROR}/ bookworm main contrib # nearest\n",
            MIRROR,
        ),
        (
            "sources.list.d/debian.sources",
            "# written by the installer\nTypes: deb deb-src\nURIs:\n"
            f" {MIRROR}\n# between the lines\nSuites: trixie\n trixie-updates\nComponents: main\nSigned-By:\n"
            " -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n -----END PGP PUBLIC KEY BLOCK-----\n",
            MIRROR,
        ),
        ("sources.list.d/x.sources", STANZA + "Enabled: no\n", None),
        ("sources.list.d/x.sources", STANZA.replace("trixie", "noble noble-updates"), None),
    ],
    ids=["line", "deb822", "disabled", "ubuntu"],
)
def test_the_mirror_is_that_of_apt(tmp_path, name, text, wanted):
    """Unless the environment names another one."""
    (tmp_path / "sources.list.d").mkdir()
    (tmp_path / name).write_text(text)
    assert sources.debian_mirror(tmp_path, {}) == wanted
    other = "http://other.example/debian"
    assert sources.debian_mirror(tmp_path, {"INFLIGHT_DEBIAN_MIRROR": f"{other}/"}) == other


# --- what is unpacked


@pytest.fixture
def mirror(tmp_path):
    """A folder with one .deb, and the Package that pins it."""
    tree = tmp_path / "tree"
    for name, text in {
        "DEBIAN/control": "Package: hello\nVersion: 1:1.0-1\nArchitecture: all\nMaintainer: x <x@x.example>\n"
        "Description: x\n",
        "usr/bin/hello": "#!/bin/sh\necho hello from the package\n",
        "usr/share/doc/hello/manual": "not unpacked",
    }.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    (tree / "usr/bin/hello").chmod(0o755)
    (tree / "usr/bin/hallo").symlink_to("hello")
    deb = tmp_path / "mirror/pool/hello.deb"
    deb.parent.mkdir(parents=True)
    subprocess.run(["dpkg-deb", "--root-owner-group", "--build", tree, deb], check=True, capture_output=True)
    sha256 = hashlib.sha256(deb.read_bytes()).hexdigest()
    package = packages.Package("hello", "1:1.0-1", "all", deb.stat().st_size, sha256, "pool/hello.deb")
    return f"file://{tmp_path}/mirror", package


def test_a_package_is_unpacked_without_being_installed(mirror, tmp_path):
    """A second time needs no mirror."""
    for _ in range(2):
        folder = packages.install(mirror[1], mirror[0], tmp_path / "store")
        shutil.rmtree(tmp_path / "mirror", ignore_errors=True)
    assert subprocess.check_output([folder / "usr/bin/hallo"], text=True) == "hello from the package\n"
    assert not (folder / "usr/share/doc").exists()
    assert os.listdir(tmp_path / "store") == [folder.name]


def test_a_wrong_hash_is_refused_and_leaves_nothing(mirror, tmp_path):
    base, package = mirror
    (tmp_path / "mirror/pool/hello.deb").open("ab").write(b"\0")
    with pytest.raises(SetupError, match="hello: the download is not the pinned file"):
        packages.install(package, base, tmp_path / "store")
    assert os.listdir(tmp_path / "store") == []


# --- what cannot be had


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("INFLIGHT_CACHE", str(tmp_path / "cache"))
    (tmp_path / "cache").mkdir()
    return tmp_path / "cache"


def tool(name, *words):
    return subprocess.run([sys.executable, "-m", f"tools.{name}", *words], capture_output=True, text=True)


@pytest.mark.parametrize("shared", ("cache", "checkout"))
def test_two_set_ups_take_turns(tmp_path, monkeypatch, shared):
    """The second says that it waits, and only then does the first end."""
    order, said, waits = [], [], threading.Event()

    def chosen(cache, checkout):
        monkeypatch.setenv("INFLIGHT_CACHE", str(tmp_path / cache))
        monkeypatch.setattr(set_up, "CHECKOUT", tmp_path / checkout)

    def ensure():
        order.append("begins")
        if len(order) == 1:
            chosen(*(name if name == shared else "another" for name in ("cache", "checkout")))
            second.start()
            assert waits.wait(60)
        order.append("ends")

    monkeypatch.setattr(environment, "ensure", ensure)
    monkeypatch.setattr(environment, "link", lambda: False)
    monkeypatch.setattr(common, "say", lambda text: (said.append(text), waits.set()))
    second = threading.Thread(target=set_up.prepare, args=[["boards"]])
    chosen("cache", "checkout")
    set_up.prepare(["boards"])
    second.join()
    assert order == ["begins", "ends"] * 2
    assert said == [f"waiting for another process in {tmp_path / shared}"]


# --- one device file on one runtime


DEVICE_TEST = """
from harness import eq, raises
def test_good():
    eq(1, 1)
    raises(ValueError, int, "x")
def test_bad():
    eq(1, 2)
"""


def test_device_run_reports_each_test(tmp_path, cache, monkeypatch):
    path = tmp_path / "test_sample.py"
    path.write_text(DEVICE_TEST)
    monkeypatch.setenv("INFLIGHT_MICROPYTHON", sys.executable)  # an interpreter that the person names
    good = tool("runtimes.device_run", path, "--runtime", "micropython-own", "-k", "good")
    assert (good.returncode, good.stdout) == (0, "ok test_good\n1 ok, 0 failed, 0 skipped\n")
    bad = tool("runtimes.device_run", path, "-k", "bad")
    assert (bad.returncode, "AssertionError: 1 != 2" in bad.stdout) == (1, True)
    found = {"micropython-x86": {"reason": "the kernel runs no such programs", "temporary": False}}
    (cache / "programs.json").write_text(json.dumps({"programs": found}))
    unavailable = tool("runtimes.device_run", path, "--runtime", "micropython-x86")
    assert (unavailable.returncode, "the kernel runs no such programs" in unavailable.stderr) == (3, True)
    path.write_text("from harness import SkipTest\nraise SkipTest('not for this one')\ndef test_x():\n    pass\n")
    skipped = tool("runtimes.device_run", path)
    assert (skipped.returncode, skipped.stdout) == (0, "skip *: not for this one\n")


# --- in parts


def test_the_commands_for_boards_need_no_program_for_this_host(tmp_path, monkeypatch, cache):
    """Where no MicroPython is pinned for the processor, or it is no Linux, only what needs that is refused."""
    monkeypatch.setattr(platform, "machine", lambda: "a strange one")
    monkeypatch.setattr(environment, "ensure", lambda: True)
    monkeypatch.setattr(environment, "link", lambda: False)
    assert set_up.prepare(["boards"])
    for names in ([], ["pipeline"]):
        with pytest.raises(SetupError, match="no MicroPython is pinned for a strange one"):
            set_up.prepare(names)

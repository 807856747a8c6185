"""The wheel works without a checkout."""

import email
import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import inflight
from inflight_tools.boards.build import bundle
from tools.setup.common import CHECKOUT

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")

WORKER = "wheel"
PARTS = {
    "lib/inflight": "inflight",
    "tools/inflight_tools": "inflight_tools",
    "boards": "inflight_tools/device_code/boards",
    "firmware": "inflight_tools/device_code/firmware",
}
SUFFIXES = (".json", ".md", ".py", ".css", ".html", ".js", ".properties", ".svg")


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The folder with the unpacked wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    for part in PARTS:
        shutil.copytree(CHECKOUT / part, folder / "source" / part, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(CHECKOUT / name, folder / "source")
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "-q", "--no-deps", "--no-index"]
    command += ["--no-build-isolation", "--wheel-dir", folder, folder / "source"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = folder.glob("inflight_mqtt-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def run(installed, *words):
    """Runs Python outside the checkout, with the wheel first on its path."""
    env = {**os.environ, "PYTHONPATH": str(installed), "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, *words], cwd=installed.parent, env=env, capture_output=True, text=True)


def modules(folder):
    return {path.relative_to(folder) for path in folder.rglob("*") if path.suffix in SUFFIXES}


@pytest.mark.parametrize("part", PARTS)
def test_every_module_is_in_the_wheel(installed, part):
    assert modules(CHECKOUT / part) - modules(installed / PARTS[part]) == set()


def test_the_wheel_has_no_maintainers_tools(installed):
    assert {path.name for path in installed.iterdir() if "dist-info" not in path.name} == {"inflight", "inflight_tools"}


def test_the_wheel_tells_what_it_is(installed):
    (folder,) = installed.glob("*.dist-info")
    told = email.message_from_string((folder / "METADATA").read_text())
    assert (told["Name"], told["Version"], told["License-Expression"]) == ("inflight-mqtt", inflight.__version__, "MIT")
    assert told["Description-Content-Type"] == "text/markdown"
    assert told.get_payload().strip() == (CHECKOUT / "README.md").read_text().strip()
    assert (folder / "licenses/LICENSE").read_text() == (CHECKOUT / "LICENSE").read_text()
    urls = dict(line.split(", ") for line in told.get_all("Project-URL"))
    assert urls.keys() == {"Source", "Documentation", "Changelog", "Issues"}


def test_one_place_has_the_version():
    """Of the sources; documents and tests may show versions."""
    named = r"version_*[\"']? ?[:?]?[:=] ?[\"']?[0-9]+\.[0-9]+\.[0-9]"
    quoted = r"[\"']" + inflight.__version__.replace(".", r"\.") + r"\b"
    elsewhere = (":!host_tests", ":!*.md", ":!*.lock", ":!*package-lock.json")
    command = ["git", "grep", "-iIlE", "-e", named, "-e", quoted, "--", ".", *elsewhere]
    found = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.split()
    assert found == ["lib/inflight/__init__.py"]


def test_the_client_needs_nothing_but_python(installed):
    code = "import inflight; from inflight import AsyncClient, Client, Journal, RamFlash; print(inflight.__file__)"
    done = run(installed, "-S", "-c", code)
    assert (done.stderr, Path(done.stdout.strip())) == ("", installed / "inflight/__init__.py")


def test_the_command_starts_and_names_its_groups(installed):
    (entry,) = installed.glob("*.dist-info/entry_points.txt")
    assert "inflight = inflight_tools.cli:main" in entry.read_text()
    done = run(installed, "-m", "inflight_tools", "--help")
    assert done.returncode == 0, done.stderr
    assert "board" in done.stdout and "fleet" in done.stdout


def test_the_client_alone_tells_its_version(installed):
    done = run(installed, "-S", "-m", "inflight_tools", "--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"inflight {inflight.__version__}\n", "")


def test_the_command_without_its_packages_says_what_to_install(installed):
    done = run(installed, "-S", "-m", "inflight_tools", "board", "image")
    assert (done.returncode, done.stdout) == (1, "")
    assert "in the checkout, pip install '.[boards]'" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("board", ["esp32", "rp2040", "unix"])
def test_files_for_a_board_equal_the_checkouts(installed, board):
    code = "import hashlib, sys; from inflight_tools.boards.build import bundle\n"
    code += "assert all(str(folder).startswith(sys.argv[2]) for folder in bundle.device_sources())\n"
    code += "for path, content in bundle.files(sys.argv[1]).items(): print(path, hashlib.sha256(content).hexdigest())"
    done = run(installed, "-c", code, board, str(installed))
    assert done.returncode == 0, done.stderr
    wanted = {path: hashlib.sha256(content).hexdigest() for path, content in bundle.files(board).items()}
    assert dict(line.split() for line in done.stdout.splitlines()) == wanted

"""The folder that installs boards from a browser: what is in it, and what is refused."""

import hashlib
import io
import json
import tarfile
import threading
import urllib.request

import pytest

from host_tests.thorough import more
from host_tests.tools.boards.made_firmware import esp_firmware, pico_firmware
from host_tests.tools.command import inflight
from inflight_tools.boards.images.board_image import make_bare
from inflight_tools.boards.images.variants import variant
from inflight_tools.installer import folder, web_tools


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package like that of esp-web-tools."""
    path = tmp_path / "tools.tgz"
    with tarfile.open(path, "w:gz") as made:
        for name in ("package/dist/web/install-button.js", "package/LICENSE", "package/dist/other.js", "../evil.js"):
            member = tarfile.TarInfo(name)
            member.size = len(name)
            made.addfile(member, io.BytesIO(name.encode()))
    monkeypatch.setattr(web_tools, "_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


@pytest.fixture
def run(made, package):
    """(exit status, output, errors) of the command with these words."""

    def run(*words, tools=package):
        words = words or ("--board", "esp32", "--board-firmware", f"esp32={made.firmware}")
        words = ["installer", "--out", made.out, *(["--web-tools", tools] if tools else []), *words]
        done = inflight(*words)
        return done.exit_code, done.stdout, done.stderr

    return run


def refused(done):
    status, output, errors = done
    assert status == 1 and not output and len(errors.splitlines()) == 1, (output, errors)
    return errors


def test_modules_of_ones_own_are_installed(run, made, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sensor_mine.py").write_text("FIELDS = {}\n")
    named = ("--board", "esp32", "--board-firmware", f"esp32={made.firmware}")
    status, _, errors = run(*named, "--app", tmp_path / "mine")
    assert status == 0, errors
    assert any(b"sensor_mine.mpy" in path.read_bytes() for path in made.out.rglob("*.bin"))


@pytest.mark.parametrize("board", ["esp32", "esp32c3", *more("esp32s2", "esp32s3", "esp32c6")])
def test_parts_of_an_esp32(run, made, board):
    """What `inflight board flash` writes, at the same places, and nothing where the journal is. No configuration."""
    made.firmware.write_bytes(esp_firmware(board, variant(board).bootloader))
    status, output, errors = run("--board", board, "--board-firmware", f"{board}={made.firmware}")
    assert status == 0, errors
    assert output.strip() == str(made.out / "index.html")
    image = make_bare(variant(board), made.firmware, "")
    manifest = json.loads((made.out / "manifest.json").read_text())
    [found] = manifest["builds"]
    parts = [(part["offset"], (made.out / part["path"]).read_bytes()) for part in found["parts"]]
    assert parts == [(at, content) for _, at, content in image.pieces()]
    assert found["chipFamily"].replace("-", "").lower() == board and manifest["new_install_prompt_erase"] is True
    start, end = image.journal.offset, image.journal.offset + image.journal.size
    assert all(at + len(content) <= start or at >= end for at, content in parts)
    assert not any(b"config.json" in content for _, content in parts)
    assert found["chipFamily"] in (made.out / "index.html").read_text()


def test_the_file_of_a_pico(run, made):
    made.firmware.write_bytes(pico_firmware())
    status, _, errors = run("--board", "pico_w", "--board-firmware", f"pico_w={made.firmware}")
    assert status == 0, errors
    image = make_bare(variant("pico_w"), made.firmware, "")
    assert (made.out / "inflight-pico_w.uf2").read_bytes() == image.file()
    page = (made.out / "index.html").read_text()
    assert 'href="inflight-pico_w.uf2"' in page and "RPI-RP2" in page
    assert "esp-web-install-button" not in page  # there is nothing that it could install


def test_the_web_tools_are_in_the_folder_with_their_licence(run, made, tmp_path):
    assert run()[0] == 0
    assert sorted(path.name for path in (made.out / "web").iterdir()) == ["LICENSE", "install-button.js"]
    assert not (tmp_path / "evil.js").exists()
    assert "not for esp32c3" in refused(run("--board", "esp32c3", "--board-firmware", f"esp32c3={made.firmware}"))


@pytest.mark.parametrize(
    ("word", "told"), [("firmware.bin", "it takes BOARD=FILE"), ("esp8266=x.bin", "'esp8266' is not one of esp32, ")]
)
def test_wrong_words(run, word, told):
    status, output, errors = run("--board-firmware", word)
    assert status == 2 and told in " ".join(errors.replace("│", " ").split()) and not output


def test_firmware_that_cannot_be_had(run, made, tmp_path, monkeypatch):
    """The others are made. What is missing is named, and the page does not offer it. With none nothing is written."""
    monkeypatch.setenv("INFLIGHT_FIRMWARE", str(tmp_path / "none"))
    monkeypatch.setenv("INFLIGHT_FIRMWARE_MIRROR", "http://127.0.0.1:9")  # nobody answers at this port
    assert "cannot download" in refused(run("--board", "esp32c6")) and not made.out.exists()
    words = "--board esp32 --board esp32s2 --board pico_w --board-firmware".split() + [f"esp32={made.firmware}"]
    status, output, errors = run(*words)
    assert status == 1 and output.strip() == str(made.out / "index.html")
    *missing, last = errors.splitlines()
    told = [line.partition(": cannot download ")[0] for line in missing]
    assert told == ["no image for esp32s2", "no image for pico_w"]
    assert all(line.endswith("=FILE") for line in missing)
    assert last == "FAILED: the page has no image for esp32s2, pico_w: see above, and run it again"
    [build] = json.loads((made.out / "manifest.json").read_text())["builds"]
    page = (made.out / "index.html").read_text()
    assert build["chipFamily"] == "ESP32" and "ESP32-S2" not in page and "Pico" not in page
    made.firmware.unlink()  # a file that is named is the person's own fault: nothing is made then
    assert "no file" in refused(run(*words))


def test_other_web_tools_are_refused(run, made, tmp_path):
    other = tmp_path / "other.tgz"
    other.write_bytes(b"other")
    assert "not the pinned" in refused(run(tools=other))
    assert "nothing.tgz" in refused(run(tools=tmp_path / "nothing.tgz"))
    assert not made.out.exists()


def test_npm_fetches_the_package_once(run, package, tmp_path, monkeypatch):
    """Without npm, or a network, the error says what to do."""
    monkeypatch.setenv("INFLIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    npm = tmp_path / "npm"

    def does(script):
        npm.write_text(f"#!/bin/sh\n{script}\n")
        npm.chmod(0o755)

    assert "--web-tools" in refused(run(tools=None))
    does("echo npm error no network >&2\nexit 1")
    assert "no network" in refused(run(tools=None))
    does(f"/bin/cp {package} {web_tools.cached().name}")
    assert run(tools=None)[0] == 0
    npm.unlink()
    assert run(tools=None)[0] == 0


def test_the_folder_is_served(made, package):
    folder.write(made.out, ["esp32"], [f"esp32={made.firmware}"], package)
    with folder.server(made.out, 0) as server:
        host, port = server.server_address
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with urllib.request.urlopen(f"http://{host}:{port}/manifest.json") as answer:
            assert host == "127.0.0.1" and json.load(answer)["name"] == "Inflight"
        server.shutdown()

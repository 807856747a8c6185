"""Modules of one's own: which are taken, what is refused, and where they go."""

import subprocess

import pytest

from host_tests.tools.boards.made_firmware import esp_firmware
from host_tests.tools.boards.standin import StandIn, interpreter
from host_tests.tools.command import inflight, succeeded
from inflight_tools.boards import deploy, own
from inflight_tools.update import release

DRIVER = "FIELDS = {}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder `app` beside a configuration."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text('{"host": "broker.example"}')
    (tmp_path / "app").mkdir()
    return tmp_path / "app"


def refused(folder, board="esp32"):
    with pytest.raises(ValueError) as e:
        own.files(own.folder_of(None, folder.parent / "config.json"), board)
    assert "\n" not in str(e.value)
    return str(e.value)


def test_modules_become_mpy_beside_those_of_the_application(folder, tmp_path):
    (folder / "sensor_mine.py").write_text(DRIVER)
    (folder / "rules.py").write_text("def on_reading(name, value):\n    pass\n")
    (folder / "__pycache__").mkdir()
    (folder / ".hidden").write_text("")
    found = own.files(own.folder_of(None), "rp2040")
    assert sorted(found) == ["/lib/rules.mpy", "/lib/sensor_mine.mpy"]
    assert all(code[:2] == b"M\x06" for code in found.values())
    # They tell the line of an error.
    (folder / "mine.py").write_text("def divide():\n    assert True\n    return 1 / 0\n")
    (tmp_path / "mine.mpy").write_bytes(own.files(folder, "unix")["/lib/mine.mpy"])
    command = [*interpreter().command(), "-c", "import mine\nmine.divide()"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert 'File "mine", line 3, in divide' in done.stderr


def test_a_name_that_the_application_has_or_uses_is_refused(folder):
    for name in ("sensors", "node", "sensor_dht", "main", "machine", "json", "built", "app_more"):
        (folder / f"{name}.py").write_text(DRIVER)
        told = "the application has or uses a module of this name: choose another one"
        assert refused(folder).endswith(f"{name}.py: {told}")
        (folder / f"{name}.py").unlink()


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("mine.py", "a = 1\n\nif a\n    pass\n", "app/mine.py, line 3: SyntaxError: invalid syntax"),
        ("mine.py", b"a = '\xe9'\n", "app/mine.py: not UTF-8"),
        ("Mine.py", "", "app/Mine.py: name a module with small letters, digits and _"),
        ("two words.py", "", "app/two words.py: name a module"),
        ("data.csv", "", "app/data.csv: only modules (.py) go onto a device"),
        ("package", None, "app/package: only modules (.py) go onto a device"),
    ],
)
def test_what_is_wrong_is_named(folder, name, content, told):
    if content is None:
        (folder / name).mkdir()
    else:
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    assert told in refused(folder)


def test_which_folder_it_is(folder, tmp_path):
    (tmp_path / "other").mkdir()
    assert own.folder_of(None) == own.folder_of(None, tmp_path / "config.json").relative_to(tmp_path)
    assert own.folder_of(None, tmp_path / "other/config.json") is None
    assert own.folder_of(tmp_path / "other", tmp_path / "config.json") == tmp_path / "other"
    with pytest.raises(ValueError, match="no folder nowhere"):
        own.folder_of(tmp_path.__class__("nowhere"))


def index(image, size):
    """The names in the index of a slot's image."""
    names, at = [], 0
    while at < size:
        n = image[at]
        names.append(image[at + 1 : at + 1 + n].decode())
        at += 1 + n + 36
    return names


def test_a_release_has_them_and_hides_rules_of_an_earlier_one(folder, tmp_path):
    (folder / "sensor_mine.py").write_text(DRIVER)
    succeeded("keys", "--signing-key", "key")
    content = {}
    for number in (1, 2):
        out = tmp_path / f"{number}.release"
        words = ("--board", "unix", "--number", number, "--signing-key", "key", "--out", out, "--bytecode")
        succeeded("release", *words)
        made = release.load(out)
        assert {"sensor_mine.mpy", "rules.mpy"} <= {*index(made.image, made.fields["index"])}
        content[number] = made.image
        (folder / "rules.py").write_text("def on_reading(name, value):\n    print(name, value)\n")
    assert b"print" in content[2] or len(content[2]) > len(content[1])
    (folder / "rules.py").write_text("def on_reading(:\n")
    done = inflight("release", "--board", "unix", "--number", 3, "--signing-key", "key")
    assert done.exit_code == 1 and "app/rules.py, line 1: SyntaxError" in done.stderr


def test_an_image_has_them(folder, tmp_path):
    """So the configuration may name them."""
    (folder.rename("other") / "sensor_mine.py").write_text(DRIVER)
    (tmp_path / "config.json").write_text('{"host": "broker.example", "sensors": [{"driver": "mine", "bus": 1}]}')
    (tmp_path / "firmware.bin").write_bytes(esp_firmware())
    words = "--board esp32 --firmware firmware.bin --out made.bin --app other".split()
    assert "modules of your own: other\n" in succeeded("board", "image", *words).stdout
    assert b"sensor_mine.mpy" in (tmp_path / "made.bin").read_bytes()


def test_they_are_deployed_and_removed_again(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(deploy, "files", lambda board, **of: {"/boot.py": b"", "/main.py": b"", "/lib/app.mpy": b""})
    (folder / "sensor_mine.py").write_text(DRIVER)
    said = []
    with StandIn(tmp_path) as there:
        settings = {"/config.json": (tmp_path / "config.json").read_bytes()}
        plan = deploy.deploy("unix", there.port, settings, say=said.append, app=folder)
        assert "/lib/sensor_mine.mpy" in plan.write and "modules of your own: sensor_mine" in said
        (folder / "sensor_mine.py").unlink()
        plan = deploy.deploy("unix", there.port, app=folder)
        assert (plan.stale, [*plan.write]) == (["/lib/sensor_mine.mpy"], ["/lib/inflight.json"])

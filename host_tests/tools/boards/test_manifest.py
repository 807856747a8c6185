"""Manifests: a firmware, and mip, get each file exactly once."""

import json
import os
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from host_tests.tools.command import inflight, succeeded
from inflight_tools.boards.build import bundle, native
from inflight_tools.boards.frozen import of
from inflight_tools.sources import modules_in
from tools.setup.common import CHECKOUT

LIBRARY = {str(file.relative_to(CHECKOUT / "lib" / "inflight")) for file in modules_in(CHECKOUT / "lib" / "inflight")}
LIBRARY -= {"cpython.py"}


class Manifest:
    """Executes a manifest as MicroPython's build does: paths are relative to the manifest, and each manifest is
    included once. `frozen`: (name in the firmware, source file, optimisation). `stock`: manifests of MicroPython, but
    those that are `missing`."""

    def __init__(self, path, missing=()):
        self.frozen, self.stock, self._seen, self._missing = [], [], set(), missing
        self.include(str(path))

    def include(self, path, **options):
        if path in self._missing:
            try:
                open("/does/not/exist")  # noqa: SIM115
            except OSError as e:
                raise RuntimeError(f"Error in manifest file: {e}")  # noqa: B904  as MicroPython's tool does
        if path.startswith("$("):
            self.stock.append(path)
            return
        path = os.path.abspath(path)
        if path in self._seen:
            return
        self._seen.add(path)
        names = {"include": self.include, "package": self.package, "module": self.module}
        names["options"] = SimpleNamespace(**options)
        before = os.getcwd()
        os.chdir(os.path.dirname(path))
        try:
            exec(Path(path).read_text(), names)
        finally:
            os.chdir(before)

    def package(self, name, files, base_path=".", opt=None):
        for file in files:
            self.module(f"{name}/{file}", base_path, opt)

    def module(self, name, base_path=".", opt=None):
        self.frozen.append((name, Path(base_path, name).resolve(strict=True), opt))


@pytest.fixture
def frozen(tmp_path):
    """Runs `inflight board freeze`; returns the Manifest that it wrote, and {name: text} of what that freezes."""

    def freeze(*words, **options):
        succeeded("board", "freeze", tmp_path, *words)
        manifest = Manifest(tmp_path / "manifest.py", **options)
        assert {opt for _, _, opt in manifest.frozen} == {3}  # as for mpy-cross
        assert set(Counter(name for name, _, _ in manifest.frozen).values()) == {1}
        return manifest, {name: source.read_text() for name, source, _ in manifest.frozen}

    return freeze


@pytest.mark.parametrize("board, folder", [("esp32c3", "esp32"), ("pico_w", "rp2040"), ("unix", "unix")])
def test_a_firmware_has_all_modules_of_a_board_as_they_are_deployed(frozen, board, folder):
    manifest, texts = frozen("--board", board, "--application")
    wanted = {f"{place}.py": text for place, text in bundle.modules(folder).items()}
    if folder != "unix":  # MicroPython's build knows the processor
        loops = wanted["inflight/journal_core.py"] = native.viper(wanted["inflight/journal_core.py"])
        assert loops.count("@micropython.viper\ndef ") == 3
    stamp = of(bundle.modules(folder), folder)
    wanted |= {"inflight_frozen.py": f'FROZEN = "{stamp}"\n', "built.py": bundle.built()}
    assert texts == wanted
    assert {"boot.py", "main.py", "inflight/core.py"} <= set(texts)  # MicroPython runs the first two
    stock = "$(PORT_DIR)/variants/standard/manifest.py" if folder == "unix" else "$(BOARD_DIR)/manifest.py"
    assert manifest.stock == [stock]


def test_a_build_that_cannot_do_all(frozen):
    """It names no processor to mpy-cross, which cannot compile viper functions then; its board has no manifest."""
    manifest, texts = frozen("--board", "esp32c3", "--bytecode", missing=("$(BOARD_DIR)/manifest.py",))
    assert not [name for name, text in texts.items() if "viper" in text]
    assert manifest.stock == ["$(PORT_DIR)/boards/manifest.py"]


def test_the_library_that_is_frozen_is_the_same_for_each_board(frozen):
    manifest, texts = frozen()
    assert not manifest.stock
    library = {name: text for name, text in texts.items() if name.startswith("inflight/")}
    assert set(texts) - set(library) == {"inflight_frozen.py"}
    for folder in ("esp32", "rp2040", "unix"):
        modules = bundle.modules(folder)
        assert library == {f"{place}.py": text for place, text in modules.items() if place.startswith("inflight/")}
        assert texts["inflight_frozen.py"] == f'FROZEN = "{of(modules)}"\n'


def test_files_of_an_earlier_release_are_not_frozen(frozen, tmp_path):
    (tmp_path / "modules").mkdir()
    (tmp_path / "modules/old.py").touch()
    _, texts = frozen("--board", "pico_w", "--application")
    assert "old.py" not in texts
    _, texts = frozen()
    assert "app.py" not in texts


def test_an_application_without_a_board(tmp_path):
    done = inflight("board", "freeze", tmp_path, "--application")
    assert done.exit_code == 1 and "name it with --board" in done.stderr and len(done.stderr.splitlines()) == 1
    assert not [*tmp_path.iterdir()]


def test_the_library_alone():
    manifest = Manifest(CHECKOUT / "lib" / "manifest.py")
    assert sorted(name for name, _, _ in manifest.frozen) == sorted(f"inflight/{name}" for name in LIBRARY)
    assert not manifest.stock
    urls = json.loads((CHECKOUT / "lib" / "package.json").read_text())["urls"]  # what mip installs
    assert sorted(target for target, _ in urls) == sorted(f"inflight/{name}" for name in LIBRARY)
    for target, source in urls:
        assert target == source and (CHECKOUT / "lib" / source).is_file()

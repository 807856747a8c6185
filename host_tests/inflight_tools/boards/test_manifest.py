"""Manifests: a firmware, and mip, get each file exactly once."""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

from dev.setup.common import CHECKOUT
from inflight_tools.boards import bundle

LIBRARY = {file.name for file in (CHECKOUT / "lib" / "inflight").glob("*.py")} - {"cpython.py"}


class Options:
    def __init__(self, given):
        self.__dict__.update(given)


class Manifest:
    """Executes a manifest as MicroPython's build does: paths are relative to the manifest, and each manifest is
    included once. `frozen`: (name in the firmware, source file, optimisation). `stock`: manifests of MicroPython."""

    def __init__(self, path):
        self.frozen, self.stock, self._seen = [], [], set()
        self.include(str(path))

    def include(self, path, **options):
        if path.startswith("$("):
            self.stock.append(path)
            return
        path = os.path.abspath(path)
        if path in self._seen:
            return
        self._seen.add(path)
        names = {"include": self.include, "package": self.package, "module": self.module, "options": Options(options)}
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


@pytest.mark.parametrize(
    "board, stock", [("esp32", "$(PORT_DIR)/boards/manifest.py"), ("rp2040", "$(BOARD_DIR)/manifest.py")]
)
def test_a_firmware_has_all_files_of_a_board(board, stock):
    manifest = Manifest(CHECKOUT / "boards" / board / "manifest.py")
    wanted = {f"{place}.py": source.resolve() for place, source in bundle.sources(board).items()}
    assert {name: source for name, source, _ in manifest.frozen} == wanted
    assert set(Counter(name for name, _, _ in manifest.frozen).values()) == {1}
    assert {opt for _, _, opt in manifest.frozen} == {3}  # as for mpy-cross
    assert {"boot.py", "main.py"} <= set(wanted)  # MicroPython runs these
    assert manifest.stock == [stock]


def test_the_library_alone():
    manifest = Manifest(CHECKOUT / "lib" / "manifest.py")
    assert sorted(name for name, _, _ in manifest.frozen) == sorted(f"inflight/{name}" for name in LIBRARY)
    assert not manifest.stock


def test_manifests_are_not_copied_to_boards():
    for board in ("esp32", "rp2040"):
        assert not any("manifest" in place for place in bundle.sources(board))


def test_mip_installs_the_library():
    urls = json.loads((CHECKOUT / "lib" / "package.json").read_text())["urls"]
    assert sorted(target for target, _ in urls) == sorted(f"inflight/{name}" for name in LIBRARY)
    for target, source in urls:
        assert target == source and (CHECKOUT / "lib" / source).is_file()

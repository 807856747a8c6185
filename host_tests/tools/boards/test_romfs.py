"""--romfs: the modules in a ROM file system, from which MicroPython runs them in place."""

import functools
import subprocess

import pytest

from host_tests.tools.boards.standin import StandIn, interpreter
from inflight_tools.boards.build.bundle import compile_all, library
from inflight_tools.boards.device import rom
from inflight_tools.boards.device.install import install
from inflight_tools.boards.device.link import DeviceError, Link

ROM = 256 * 1024


@functools.cache
def compiled():
    return {f"/lib/{place}.mpy": code for place, code in compile_all(library()).items()}


def application():
    """A few modules of the library, and what starts."""
    some = {f"/lib/inflight/{name}.mpy" for name in ("__init__", "core", "packet", "client")}
    modules = {path: code for path, code in compiled().items() if path in some}
    return modules | {"/main.py": b"import inflight.packet\nprint(inflight.packet.__file__)\n"}


def put(port, in_rom=True):
    with Link(port) as link:
        plan = install(link, "unix", application(), {}, in_rom)
        return plan, link.run("import inflight.packet\nprint(inflight.packet.__file__)").strip()


def test_modules_go_to_rom_and_are_imported_from_there(tmp_path):
    with StandIn(tmp_path, rom=ROM) as there:
        assert put(there.port, in_rom=False)[1] == "/lib/inflight/packet.mpy"
        plan, _ = put(there.port)
        assert sorted(plan.stale) == sorted(application().keys() - {"/main.py"})  # from the file system
        assert plan.rom and not any(path.endswith(".mpy") for path in plan.write)
        plan, origin = put(there.port)
        assert origin == "/rom/lib/inflight/packet.mpy"
        assert not (plan.rom or plan.write or plan.stale) and plan.same == len(application())


def test_an_image_that_is_damaged_on_the_way_is_reported(tmp_path, monkeypatch):
    write, code = rom.write, compiled()["/lib/inflight/packet.mpy"]
    damaged = code.replace(b"inflight.packet", b"inflight.packes")  # the name that tracebacks tell
    monkeypatch.setattr(rom, "write", lambda link, image: write(link, image.replace(code, damaged)))
    with StandIn(tmp_path, rom=ROM) as there:
        with pytest.raises(DeviceError, match="^/rom/lib/inflight/packet.mpy did not arrive as sent"):
            put(there.port)
        monkeypatch.undo()
        put(there.port)
        assert put(there.port)[1] == "/rom/lib/inflight/packet.mpy"


HEAP = """
import gc, sys, vfs
image = open(sys.argv[1], "rb").read()
vfs.mount(vfs.VfsRom(image), "/rom")
sys.path.insert(0, sys.argv[2])
gc.collect()
before = gc.mem_alloc()
from inflight import Client, Journal
gc.collect()
print(gc.mem_alloc() - before)
"""


def test_code_in_rom_takes_less_heap_than_code_in_files(tmp_path):
    """With the image that mpremote would write, mounted by MicroPython."""
    (tmp_path / "image").write_bytes(rom.image(compiled()))
    (tmp_path / "files" / "inflight").mkdir(parents=True)
    for path, content in compiled().items():
        (tmp_path / "files" / path.removeprefix("/lib/")).write_bytes(content)
    taken = {}
    for place in ("/rom/lib", tmp_path / "files"):
        command = [*interpreter().command("400k"), "-c", HEAP, tmp_path / "image", place]
        done = subprocess.run(command, capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stderr
        taken[place] = int(done.stdout)
    assert 0 < taken["/rom/lib"] < taken[tmp_path / "files"] / 2, taken

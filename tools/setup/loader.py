"""Starts a program of unpacked packages with the loader and the libraries of these packages."""

from typing import NamedTuple

from tools.setup.common import SetupError


class Platform(NamedTuple):
    libraries: str  # the folder's name
    loader: str
    emulator: str | None = None


PLATFORMS = {
    "amd64": Platform("x86_64-linux-gnu", "ld-linux-x86-64.so.2"),
    "arm64": Platform("aarch64-linux-gnu", "ld-linux-aarch64.so.1"),
    "i386": Platform("i386-linux-gnu", "ld-linux.so.2", "qemu-i386"),
    "armhf": Platform("arm-linux-gnueabihf", "ld-linux-armhf.so.3", "qemu-arm"),
}


def find_file(folders, name):
    """The path of the file `name` in one of the folders."""
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    raise SetupError(f"the packages unpacked in {folders[0].parent} lack {name}")


def loader_command(folders, architecture):
    """The command line before a program's path: the loader, and the libraries of the packages in `folders`."""
    platform = PLATFORMS[architecture]
    parents = [folder / top / platform.libraries for folder in folders for top in ("usr/lib", "lib")]
    libraries = [path for parent in parents for path in (parent, parent / "pulseaudio") if path.is_dir()]
    return [str(find_file(libraries, platform.loader)), "--library-path", ":".join(map(str, libraries))]

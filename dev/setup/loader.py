"""How a program of unpacked packages starts: by its own loader, with its own libraries."""

from typing import NamedTuple

from .common import Trouble


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


def one(folders, name):
    """The path of file `name`, which one of the folders has."""
    for folder in folders:
        if (folder / name).exists():
            return folder / name
    raise Trouble(f"the packages unpacked in {folders[0].parent} lack {name}")


def loading(folders, architecture):
    """What stands before a program's path: the loader, and the libraries of the packages unpacked in `folders`."""
    platform = PLATFORMS[architecture]
    places = [folder / top / platform.libraries for folder in folders for top in ("usr/lib", "lib")]
    libraries = [path for place in places for path in (place, place / "pulseaudio") if path.is_dir()]
    return [str(one(libraries, platform.loader)), "--library-path", ":".join(map(str, libraries))]

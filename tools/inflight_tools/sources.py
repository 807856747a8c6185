"""Where the sources of the device code are: in the checkout, or in the installed package."""

from pathlib import Path
from typing import NamedTuple


class Sources(NamedTuple):
    lib: Path  # holds the package inflight
    boards: Path
    firmware: Path


def modules_in(folder: Path) -> list[Path]:
    """The modules of a folder of device code, in the order of their names. A device has them flat; folders are for
    readers."""
    return sorted(folder.rglob("*.py"), key=lambda file: file.name)


def search_path(folder: Path) -> list[Path]:
    """The folders in which these are. The folder itself comes last: MicroPython takes a folder for a package."""
    return [*sorted({file.parent for file in folder.rglob("*.py")} - {folder}), folder]


def device_sources() -> Sources:
    """The Sources of this installation: a wheel contains boards and firmware below inflight_tools, an editable install
    does not."""
    package = Path(__file__).resolve().parent
    packaged = package / "device_code"
    if packaged.is_dir():
        return Sources(package.parent, packaged / "boards", packaged / "firmware")
    checkout = package.parents[1]
    return Sources(checkout / "lib", checkout / "boards", checkout / "firmware")

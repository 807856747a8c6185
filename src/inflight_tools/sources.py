"""Where the sources lie of what a device carries: in the checkout, or beside the installed package."""

from pathlib import Path
from typing import NamedTuple


class Sources(NamedTuple):
    lib: Path  # holds the package inflight
    boards: Path
    firmware: Path


def device_sources():
    """The Sources of this installation: a wheel brings boards and firmware below inflight_tools, an editable install
    has none there."""
    package = Path(__file__).resolve().parent
    packaged = package / "device_code"
    if packaged.is_dir():
        return Sources(package.parent, packaged / "boards", packaged / "firmware")
    checkout = package.parents[1]
    return Sources(checkout / "lib", checkout / "boards", checkout / "firmware")

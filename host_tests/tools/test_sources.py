"""Device code stands in folders for readers."""

from collections import Counter

from inflight_tools.sources import modules_in, search_path
from tools.setup.common import CHECKOUT
from tools.setup.environment import folders

FOLDERS = [CHECKOUT / "firmware", CHECKOUT / "host_tests/device"]


def test_no_two_modules_have_the_same_name():
    """A board has its own modules, the firmware, and those of all boards but where its own one takes the place (see
    boards/README.md); a device test may import fakes and peers too."""
    for board in ("esp32", "rp2040", "unix"):
        own = {file.stem for file in modules_in(CHECKOUT / "boards" / board)}
        shared = {file.stem for file in modules_in(CHECKOUT / "boards/common")}
        names = Counter([*own, *(shared - own)])
        names.update(file.stem for place in FOLDERS for file in modules_in(place))
        assert [name for name, n in names.items() if n > 1] == []


def test_the_search_path_has_each_folder():
    """Of pytest, and of the virtual environment; a folder behind those in it, since MicroPython takes it for a
    package."""
    path = list(map(str, folders()))
    for folder in FOLDERS:
        wanted = list(map(str, search_path(folder)))
        assert wanted == [place for place in path if place in wanted]

"""What a power cut leaves boots on the emulated board: the judge finds the wrong application, and a change."""

import pytest

from host_tests.emulated_boards import pico_w_bench
from host_tests.emulated_boards.each_cut import Cut
from host_tests.emulated_boards.started import boot
from host_tests.emulated_boards.tasks import CODE, harness
from host_tests.emulated_boards.test_each_cut import WHOLE
from inflight_tools.boards.build.bundle import files
from tools.emulators.pico_w import filesystem
from tools.emulators.pico_w.board import Board
from update_record import TRIAL, Record

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")

MAIN = (CODE / "updated.py").read_bytes()
STARTERS = ("launch", "starting", "image", "update_record", "trial")


def judged(main=MAIN, state=0, slot=1, image=WHOLE):
    """Judges the boot of a board whose application is in `slot`, or is tried in the other one."""
    own = {path: content for path, content in files("rp2040").items() if path[5:-4] in STARTERS}
    brought = own | harness("rp2040") | {"/main.py": main}
    record = Record()
    record.n, record.state, record.slot, record.left = 2, state, slot, 3
    own = {"/update.0": record.pack(), "/a.image": image, "/b.image": WHOLE}
    flash = Board(filesystem.pack(brought | own)).snapshot()
    boot(pico_w_bench, Cut("torn", flash, 0, flash, flash, []), brought)


@pytest.mark.parametrize("state", [0, TRIAL])
@pytest.mark.parametrize("slot", [0, 1, 2])
def test_the_application_that_the_record_says_starts(state, slot):
    judged(state=state, slot=slot)


def test_another_one_starts():
    with pytest.raises(AssertionError, match="torn: none starts, not a"):
        judged(image=WHOLE + b"x")


def test_a_start_changes_files():
    with pytest.raises(AssertionError, match=r"torn: the start changed \['/x'\]"):
        judged(main=b"open('/x', 'w').close()\n" + MAIN)

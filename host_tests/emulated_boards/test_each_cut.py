"""The judge of what a power cut leaves finds what is not whole."""

import pytest

from host_tests.emulated_boards.each_cut import check
from inflight_tools.boards.slots import index_of
from update_record import FETCH, TRIAL, Record

BROUGHT = {"/main.py": b"main", "/lib/app.mpy": b"app"}


def image(**files):
    """The image of a release with these modules."""
    return index_of({f"{name}.mpy": content for name, content in files.items()}) + b"".join(files.values())


WHOLE = image(app=b"newer", start=b"", node=b"node")


def files(state, slot, n=1):
    record = Record()
    record.n, record.state, record.slot = n, state, slot
    return BROUGHT | {f"/update.{n % 2}": record.pack()}


@pytest.mark.parametrize("slot", ["/a.image", "/b.image"])
@pytest.mark.parametrize("damaged", [WHOLE[:-1], WHOLE[:-1] + b"x", WHOLE + b"x", WHOLE[:40], b""])
def test_a_damaged_slot_is_found_if_it_starts(slot, damaged):
    own = {"/a.image": WHOLE, "/b.image": WHOLE}
    check(files(TRIAL, 1) | own, BROUGHT, "torn")
    with pytest.raises(AssertionError, match="not whole"):
        check(files(TRIAL, 1) | own | {slot: damaged}, BROUGHT, "torn")


def test_a_missing_module_is_found_if_it_starts():
    for state in (FETCH, TRIAL):
        with pytest.raises(AssertionError, match="without"):
            check(files(state, 0) | {"/a.image": WHOLE, "/lib/app.mpy": b""}, BROUGHT, "torn")


def test_the_newer_record_counts_unless_it_is_damaged():
    found = files(FETCH, 0, 3) | files(FETCH, 1, 4) | {"/a.image": b""}
    with pytest.raises(AssertionError, match="slot a"):
        check(found, BROUGHT, "torn")
    check(found | {"/update.0": found["/update.0"][:-1]}, BROUGHT, "torn")

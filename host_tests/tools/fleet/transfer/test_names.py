"""Names of objects, and the order in which files travel."""

import pytest

from inflight_tools.fleet.transfer.names import collector, in_order, is_object, is_whole, object_name

NAME = "c-0-1760000000000-000001.ndjson"


def test_the_name_of_an_object_tells_its_content():
    name = object_name(NAME, b"one\n")
    assert name.startswith("c-0-1760000000000-000001.") and name.endswith(".ndjson") and is_object(name)
    assert is_whole(name, b"one\n")
    assert not any(is_whole(name, other) for other in (b"", b"one", b"one\none\n"))
    assert object_name(name, b"one\n") == name  # uploaded again from where it was downloaded
    assert not is_object(NAME) and not is_whole(NAME, b"one\n")


@pytest.mark.parametrize("name", [NAME, object_name(NAME, b"")])
def test_a_file_is_of_the_collector_in_its_name(name):
    assert collector(name) == "c-0"
    assert collector("by-hand.ndjson") == "by-hand"


def test_files_of_a_collector_are_in_the_order_of_its_starts_and_numbers():
    names = ["c-9-000010", "c-10-000000", "c-9-1000000", "c-9-000009", "d-1-000000", "by-hand"]
    listed = {f"{name}.ndjson": 1 for name in names}
    expected = ["by-hand", "c-9-000009", "c-9-000010", "c-9-1000000", "c-10-000000", "d-1-000000"]
    assert list(in_order(lambda: listed)) == [f"{name}.ndjson" for name in expected]


def test_a_file_that_appears_while_they_are_listed_waits_for_those_before_it():
    """The first list lacks c 1 and d 0, which were made before c 2 was."""
    first = {"c-1-000000.ndjson": 1, "c-1-000002.ndjson": 1}
    second = first | {f"{name}.ndjson": 1 for name in ("c-1-000001", "c-1-000003", "d-1-000000")}
    lists = iter([first, second])
    assert list(in_order(lambda: next(lists))) == [f"c-1-00000{n}.ndjson" for n in range(3)]

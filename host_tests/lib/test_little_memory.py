"""A client of which the heap is too small says so, to its caller. It does not connect and fail without end."""

import pytest

from host_tests.absent import interpreter
from host_tests.thorough import more, some
from tools.bench.figures.run import Code, Failed

RUNTIMES = "micropython-x86"


@pytest.mark.parametrize("client", ["ours", *more("ours_level_5")])
def test_each_heap_is_enough_or_too_small(client, mosquitto, tmp_path):
    """It publishes, subscribes, receives, connects once more and receives again."""
    found = interpreter(RUNTIMES)
    code, port = Code(tmp_path, found), mosquitto().port
    enough = []
    for heap in some(range(81_920, 20_480, -256), 10):
        try:
            code.run("smallest", client, port, f"journal-{heap}", heap=heap, timeout=60)
            enough.append(heap)
        except Failed as e:
            assert "RuntimeError" not in str(e) and "memory" in str(e).lower(), (heap, e)  # no message came
    assert enough[0] == 81_920 and len(enough) > 3

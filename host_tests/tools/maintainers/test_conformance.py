"""tools/conformance.py: what it reads, how it judges. The real run is `make conformance`."""

import re

import pytest

from tools import conformance

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")


def test_rules():
    """The lists are read whole: 200 statements of 5 that a client could see, 141 of 3.1.1, 27 rows of 3.1."""
    found = conformance.rules()
    assert len(found) == 200 + 141 + 27
    assert found["MQTT5-3.3.1-1"].needed and found["MQTT5-3.1.2-2"].needed and not found["MQTT5-4.8.2-4"].needed
    assert found["MQTT-3.3.1-1"].needed and found["MQTT-3-8.3-4"].needed and found["MQTT31-9"].needed
    assert not found["MQTT-3.1.2-5"].needed  # a server's duty alone
    assert not found["MQTT31-25"].needed


@pytest.fixture(scope="module")
def proofs():
    return list(conformance.proofs())


def test_every_statement_has_a_test_or_a_reason(proofs):
    """None is left open or has both, and no test names a statement that does not exist."""
    found = conformance.rules()
    assert conformance.assign(found, proofs) == []
    assert [r.number for r in found.values() if r.needed and not r.tests and not r.reason] == []
    assert [r.number for r in found.values() if r.tests and r.reason] == []


XML = """<testsuites><testsuite>
<testcase file="host_tests/device/lib/test_packet.py" name="test_a[cpython]"/>
<testcase file="host_tests/device/lib/test_packet.py" name="test_a[micropython-x86]">
<skipped message="unavailable"/></testcase>
<testcase file="host_tests/device/lib/test_packet.py" name="test_b[cpython]"/>
<testcase file="host_tests/device/lib/test_packet.py" name="test_b[micropython-x86]">
<failure message="no"/></testcase>
<testcase classname="host_tests.lib.test_flows" name="test_c"><skipped message="no broker"/></testcase>
</testsuite></testsuites>"""


def test_outcomes():
    """A device test has passed if it passed on every runtime that there is."""
    device = "host_tests/device/lib/test_packet.py"
    assert conformance.outcomes(XML) == {
        (device, "test_a"): "passed",
        (device, "test_b"): "failed",
        ("host_tests/lib/test_flows.py", "test_c"): "skipped",
    }


@pytest.mark.parametrize(
    ("inside", "status", "text"),
    [("", 0, r"\d+ passed, 0 failed"), ("<failure/>", 1, "open: MQTT5-"), (None, 1, "open: MQTT5-")],
    ids=["passed", "failed", "covers nothing"],
)
def test_main(tmp_path, capsys, monkeypatch, proofs, inside, status, text):
    """The exit status, and a table, for results in which every test that carries a number ends like that."""
    cases = {(str(file), name) for _, file, name in proofs} if inside is not None else ()
    lines = "".join(f'<testcase file="{file}" name="{name}">{inside}</testcase>' for file, name in cases)
    monkeypatch.setattr(conformance, "proofs", lambda: proofs)
    path = tmp_path / "results.xml"
    path.write_text(f"<testsuites><testsuite>{lines}</testsuite></testsuites>")
    assert conformance.main(["--results", str(path)]) == status
    printed = capsys.readouterr().out
    assert "MQTT-3.3.1-1" in printed and "MQTT31-9" in printed and re.search(text, printed)

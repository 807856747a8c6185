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


def test_every_statement_has_a_test_or_a_reason():
    """None is left open, and no test names a statement that does not exist."""
    found = conformance.rules()
    assert conformance.assign(found, conformance.proofs()) == []
    assert [r.number for r in found.values() if r.needed and not r.tests and not r.reason] == []


def test_reasons_are_for_statements_without_tests():
    """A reason beside a test would be out of date."""
    found = conformance.rules()
    conformance.assign(found, conformance.proofs())
    for rule in found.values():
        assert not (rule.reason and rule.tests)


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
    ("tests", "reason", "verdict"),
    [
        (["test_a"], "", "passed"),
        (["test_a", "test_b"], "", "failed"),
        (["test_b"], "because", "failed"),
        (["test_c"], "", "skipped"),
        (["test_c", "test_a"], "", "passed"),
        (["test_unknown"], "", "skipped"),
        ([], "", "open"),
        ([], "because", "reason"),
    ],
)
def test_verdicts(tests, reason, verdict):
    results = {("f", "test_a"): "passed", ("f", "test_b"): "failed", ("f", "test_c"): "skipped"}
    rule = conformance.Rule("MQTT-1", "text", True, reason, [("f", name) for name in tests])
    assert rule.result(results) == verdict


def results_file(tmp_path, verdict):
    """An XML file in which every test that carries a number has this verdict."""
    cases = {(str(file), name) for _, file, name in conformance.proofs()}
    inside = "<failure/>" if verdict == "failed" else ""
    lines = [f'<testcase file="{file}" name="{name}">{inside}</testcase>' for file, name in cases]
    path = tmp_path / "results.xml"
    path.write_text("<testsuites><testsuite>" + "".join(lines) + "</testsuite></testsuites>")
    return path


def test_main(tmp_path, capsys):
    """Exit status 0 and a table when all passed."""
    assert conformance.main(["--results", str(results_file(tmp_path, "passed"))]) == 0
    text = capsys.readouterr().out
    assert "MQTT-3.3.1-1" in text and "MQTT31-9" in text
    assert re.search(r"\d+ passed, 0 failed", text)


def test_main_fails(tmp_path, capsys):
    """Exit status 1 when something failed, and what."""
    assert conformance.main(["--results", str(results_file(tmp_path, "failed"))]) == 1
    assert "open: MQTT5-" in capsys.readouterr().out


def test_results_that_cover_nothing(tmp_path, capsys):
    """Tests that did not run prove nothing."""
    path = tmp_path / "empty.xml"
    path.write_text("<testsuites/>")
    assert conformance.main(["--results", str(path)]) == 1

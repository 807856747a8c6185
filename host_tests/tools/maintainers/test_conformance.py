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


def test_outcomes():
    """A device test has passed if it passed on every runtime that there is."""
    outcomes = conformance.Outcomes()
    for name, when, outcome in (
        ("test_a[cpython]", "call", "passed"),
        ("test_a[micropython-x86]", "setup", "skipped"),
        ("test_b[micropython-x86]", "call", "failed"),
        ("test_b[cpython]", "call", "passed"),
        ("test_c", "setup", "passed"),
        ("test_c", "call", "skipped"),
    ):
        outcomes.pytest_runtest_logreport(pytest.TestReport(f"a.py::{name}", ("", 0, ""), {}, outcome, None, when))
    assert outcomes.found == {("a.py", "test_a"): "passed", ("a.py", "test_b"): "failed", ("a.py", "test_c"): "skipped"}


@pytest.mark.parametrize(
    ("outcome", "status", "text"),
    [("passed", 0, r"\d+ passed, 0 failed"), ("failed", 1, "open: MQTT5-"), (None, 1, "open: MQTT5-")],
)
def test_main(capsys, monkeypatch, proofs, outcome, status, text):
    """The exit status, and a table, when every test that carries a number ends like that."""
    results = {(str(file), name): outcome for _, file, name in proofs if outcome}
    monkeypatch.setattr(conformance, "proofs", lambda: proofs)
    monkeypatch.setattr(conformance, "run", lambda *of: results)
    assert conformance.main([]) == status
    printed = capsys.readouterr().out
    assert "MQTT-3.3.1-1" in printed and "MQTT31-9" in printed and re.search(text, printed)

"""Which test proves which statement of MQTT 5, 3.1.1 and 3.1: `python -m tools.conformance` runs them and prints it.

The statements stand in host_tests/spec/*.md. A test carries the numbers that it proves in its docstring, as
[MQTT5-3.3.1-1], [MQTT-3.3.1-1] or, for a row of the 3.1 list, [MQTT31-9].
Exit status 1 when a statement that binds a client is open: no test, none that passed, one that failed, and no reason
in host_tests/spec/reasons.md.
"""

import ast
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tools.setup.common import CHECKOUT

TESTS = CHECKOUT / "host_tests"
SPEC = TESTS / "spec"
NUMBER = re.compile(r"\[(MQTT(?:31|5)?-[\d.-]+)\]")
COLOURS = {"passed": "green", "failed": "red", "skipped": "yellow", "reason": "cyan", "open": "red"}


@dataclass
class Rule:
    number: str
    text: str
    needed: bool  # it binds a client, or a client can check it
    reason: str = ""
    tests: list = field(default_factory=list)  # (file, function)

    def result(self, outcomes):
        """One of passed, failed, skipped, reason, open."""
        found = {outcomes.get(test, "skipped") for test in self.tests}
        for verdict in ("failed", "passed"):
            if verdict in found:
                return verdict
        if self.reason:
            return "reason"
        return "skipped" if found else "open"


def rows(file):
    """The cells of every row of every table in a Markdown file, without heads and rules."""
    for line in file.read_text().splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and re.match(r"(MQTT\d*-)?[\d.-]*\d", cells[0]):
            yield cells


def rules():
    """{number: Rule} of the lists, in their order."""
    found = {}
    for prefix, file in (("MQTT5-", "mqtt-5.md"), ("MQTT-", "mqtt-3.1.1.md")):
        for number, binds, test, text in rows(SPEC / file):
            needed = bool({"C", "R"} & set(binds.split())) or ("V" in binds and test != "-")
            found[prefix + number] = Rule(prefix + number, text, needed)
    for number, test, topic, _, _, ours in rows(SPEC / "mqtt-3.1.md"):
        found["MQTT31-" + number] = Rule("MQTT31-" + number, f"{topic}: {ours}", test != "-")
    for number, reason in rows(SPEC / "reasons.md"):
        found[number].reason = reason
    return found


def proofs():
    """(number, file, function) of every number in the docstring of a test."""
    for file in sorted(TESTS.rglob("test_*.py")):
        text = file.read_text()
        for node in ast.parse(text).body if NUMBER.search(text) else ():
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                for number in NUMBER.findall(ast.get_docstring(node) or ""):
                    yield number, file.relative_to(CHECKOUT), node.name


def assign(found, proven):
    """Gives each rule its tests; returns the numbers that no list has."""
    unknown = []
    for number, file, name in proven:
        if number in found:
            found[number].tests.append((str(file), name))
        else:
            unknown.append(f"{number} in {file}, {name}")
    return unknown


class Outcomes:
    """A plugin of pytest. found: {(file, function): failed, passed or skipped}. Parameters and runtimes of a function
    count together: a failure anywhere is one; a pass outweighs a runtime that is not to be had here."""

    def __init__(self):
        self.found = {}

    def pytest_runtest_logreport(self, report):
        file, _, name = report.nodeid.partition("::")
        key = file, name.split("[")[0]
        if report.when == "call" or not report.passed:
            order = ("failed", "passed", "skipped")
            self.found[key] = min(self.found.get(key, "skipped"), report.outcome, key=order.index)


def run(files, options):
    outcomes = Outcomes()
    pytest.main(["-q", *options, *files], [outcomes])
    return outcomes.found


def table(found, results):
    """The rich Table of all statements that are needed."""
    out = Table("number", "statement", "tests", "result", title="MQTT 5, 3.1.1 and 3.1, seen from a client")
    for rule in found.values():
        if not rule.needed:
            continue
        verdict = rule.result(results)
        names = sorted({f"{Path(file).stem[5:]}: {name[5:]}" for file, name in rule.tests})
        shown = "\n".join(names[:3]) + (f"\nand {len(names) - 3} more" if len(names) > 3 else "")
        text = rule.reason if verdict == "reason" else shown
        out.add_row(rule.number, escape(rule.text), escape(text), f"[{COLOURS[verdict]}]{verdict}")
    return out


def main(options):
    """options: of pytest."""
    found = rules()
    unknown = assign(found, proofs())
    files = sorted({file for rule in found.values() for file, _ in rule.tests})
    results = run(files, options)
    console = Console(width=None if sys.stdout.isatty() else 160)
    console.print(table(found, results))
    needed = [rule for rule in found.values() if rule.needed]
    verdicts = [rule.result(results) for rule in needed]
    console.print(", ".join(f"{verdicts.count(v)} {v}" for v in COLOURS), f"of {len(needed)} statements")
    for line in unknown:
        console.print("no such statement:", line)
    bad = [rule.number for rule, v in zip(needed, verdicts, strict=True) if v not in ("passed", "reason")]
    if bad:
        console.print("open:", ", ".join(bad))
    return 1 if bad or unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""How commands say that they have failed."""

import io

import pytest
from rich.console import Console

from inflight_tools.output import failure


def test_what_devices_said_commands_no_terminal():
    output = io.StringIO()
    failure("Traceback of [bold]it\x1b]0;owned\x07\nValueError: \u202exe\n", Console(file=output, width=40))
    assert output.getvalue() == "FAILED: Traceback of [bold]it\\x1b]0;owned\\x07\nValueError: \\u202exe\n"


@pytest.mark.parametrize("c", "\r\v\f\x1c\x85\u2028\u2029")
def test_what_devices_said_begins_no_line(c):
    """Only a line feed ends a line, though str.splitlines() knows more."""
    output = io.StringIO()
    failure(f"refused{c}INFO all is well", Console(file=output, width=40))
    assert output.getvalue() == f"FAILED: refused{ascii(c)[1:-1]}INFO all is well\n"

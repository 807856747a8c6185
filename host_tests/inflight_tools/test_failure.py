"""How commands say that they have failed."""

import io

from rich.console import Console

from inflight_tools.failure import print_failure


def test_what_devices_said_commands_no_terminal():
    output = io.StringIO()
    print_failure(Console(file=output, width=40), "Traceback of [bold]it\x1b]0;owned\x07\nValueError: \u202exe\n")
    assert output.getvalue() == "FAILED: Traceback of [bold]it\\x1b]0;owned\\x07\nValueError: \\u202exe\n"

"""The command `inflight`, in this process."""

import functools

from typer.testing import CliRunner

from inflight_tools.cli import build

_command = functools.cache(build)


def inflight(*words, **variables):
    """The result of `inflight WORDS`; variables: of its environment."""
    env = {"COLUMNS": "300", "NO_COLOR": "1"} | variables
    return CliRunner().invoke(_command(), list(map(str, words)), env=env, catch_exceptions=False)

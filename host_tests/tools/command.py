"""The command `inflight`, in this process."""

import functools

from typer.testing import CliRunner

from inflight_tools.cli import build

_command = functools.cache(build)


def inflight(*words, stdin=None, **variables):
    """The result of `inflight WORDS`; stdin: what is typed; variables: of its environment."""
    env = {"COLUMNS": "400", "NO_COLOR": "1"} | variables
    return CliRunner().invoke(_command(words[0]), list(map(str, words)), env=env, input=stdin, catch_exceptions=False)


def succeeded(*words):
    """The same of a command that does not fail."""
    done = inflight(*words)
    assert done.exit_code == 0, done.output
    return done


def fleet(folder, *words):
    """(exit status, standard output, standard error) of `inflight fleet WORDS` with the data in a folder."""
    done = inflight("fleet", *words, "--data", folder)
    return done.exit_code, done.stdout, done.stderr

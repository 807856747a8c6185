"""What all commands print alike: results, progress, and why they have failed."""

import contextlib
import time
from collections.abc import Iterator

import typer
from rich.console import Console
from rich.text import Text

from inflight_tools.visible import visible


def show(text: str) -> None:
    """Prints a result to stdout, as it is."""
    Console().print(text, markup=False, highlight=False, soft_wrap=True)


def log(text: str | Text) -> None:
    """Prints progress, a str or a rich Text, to stderr with the time. It never raises OSError: a full disk must not end
    what runs through its log."""
    with contextlib.suppress(OSError):
        line = Text.assemble((time.strftime("%H:%M:%S"), "dim"), "  ", text)
        Console(stderr=True).print(line, soft_wrap=True)


def reason(error: BaseException) -> str:
    """What went wrong, without the number of the error: "config.json: Permission denied"."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def failure(text: str, console: Console | None = None, status: int = 1) -> typer.Exit:
    """Prints why a command has failed, to stderr or to a rich Console. Returns what to raise then: it ends the command
    with this exit status. Lines of `text`, which end with a line feed alone, may come from devices and brokers."""
    console = console or Console(stderr=True)
    shown = "\n".join(map(visible, text.rstrip("\n").split("\n")))
    console.print("[bold red]FAILED[/bold red]:", Text(shown), highlight=False, soft_wrap=True)
    return typer.Exit(status)


def first_line(error: BaseException | str) -> str:
    """The first line of the text of a library's error, or its class if it has no text."""
    return str(error).partition("\n")[0][:500] or type(error).__name__


class WrongArgument(ValueError):
    """An argument of a command that is wrong, and what to write instead."""


@contextlib.contextmanager
def failing(*errors: type[BaseException], console: Console | None = None) -> Iterator[None]:
    """Turns one of `errors`, by default what wrong input or a broken machine raises, into a failure()."""
    errors = errors or (ValueError, RuntimeError, OSError)
    try:
        yield
    except errors as e:
        raise failure(reason(e), console, 2 if isinstance(e, WrongArgument) else 1) from None

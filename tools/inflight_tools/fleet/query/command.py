"""What the commands that query the tables have in common."""

import contextlib

import typer
from rich.console import Console

from inflight_tools.extras import not_installed
from inflight_tools.failure import print_failure


@contextlib.contextmanager
def querying(*more):
    """An error of a query, or one of the exceptions `more`, ends the command with a message of one line."""
    console = Console(stderr=True)
    try:
        from deltalake.exceptions import DeltaError
        from duckdb import Error as QueryError

        from inflight_tools.fleet.delta import WrongTables, advice
        from inflight_tools.fleet.query.export import NotWritten
    except ImportError as e:
        print_failure(console, not_installed(e.name, "fleet"))
        raise typer.Exit(1) from None
    try:
        yield
    except (*more, NotWritten) as e:
        print_failure(console, str(e).partition("\n")[0][:500])
        raise typer.Exit(1) from None
    except (WrongTables, DeltaError, QueryError, OSError, ValueError) as e:  # ValueError: pyarrow raises it, too
        print_failure(console, advice(str(e)) + str(e).partition("\n")[0][:500] or type(e).__name__)
        raise typer.Exit(1) from None

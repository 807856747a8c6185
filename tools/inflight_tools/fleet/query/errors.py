"""The errors of a query: what the commands that read the tables have in common."""

import contextlib

from inflight_tools.extras import not_installed
from inflight_tools.output import failure, first_line


@contextlib.contextmanager
def querying(*more):
    """An error of a query, or one of the exceptions `more`, ends the command with a message of one line."""
    try:
        from deltalake.exceptions import DeltaError
        from duckdb import Error as QueryError

        from inflight_tools.fleet.delta import WrongTables, advice
        from inflight_tools.fleet.lock import Busy
        from inflight_tools.fleet.query.export import NotWritten
        from inflight_tools.fleet.query.follow import NotExported
    except ImportError as e:
        raise failure(not_installed(e.name, "fleet")) from None
    try:
        yield
    except (*more, Busy, NotExported, NotWritten) as e:
        raise failure(first_line(e)) from None
    except (WrongTables, DeltaError, QueryError, OSError, ValueError) as e:  # ValueError: pyarrow raises it, too
        raise failure(advice(str(e)) + first_line(e)) from None

"""The tables that maintainers' commands show, for a terminal or a Markdown page."""

import sys

from rich.console import Console
from rich.table import Table


def show(tables, markdown):
    """Prints each (title, rows) of `tables`: rows of text, the first one the head."""
    for title, rows in tables:
        if markdown:
            sys.stdout.write(_as_markdown(title, rows))
        else:
            Console().print(table(title, rows))


def across(columns):
    """Rows of text of {title of a column: {row: figure}}; the first column has all rows."""
    rows = next(iter(columns.values()))
    return [["", *columns], *([row, *(text(column.get(row, "-")) for column in columns.values())] for row in rows)]


def text(figure):
    """A number with as many digits as count; texts as they are."""
    if isinstance(figure, str):
        return figure
    digits = 0 if figure >= 100 or figure == int(figure) else 1 if figure >= 2 else 2
    return f"{figure:,.{digits}f}"


def table(title, rows):
    head, *rest = rows
    made = Table(title=title, title_justify="left")
    for place, name in enumerate(head):
        made.add_column(name, justify="right" if place else "left")
    for row in rest:
        made.add_row(*map(str, row))
    return made


def _as_markdown(title, rows):
    head, *rest = rows
    marks = ["---", *["---:"] * (len(head) - 1)]
    return f"**{title}**\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in (head, marks, *rest)) + "\n"

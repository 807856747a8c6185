"""Figures as tables, for a terminal or a Markdown page."""

import sys

from rich.console import Console
from rich.table import Table


def show(tables, markdown):
    """Prints each (title, rows) of `tables`: rows of text, the first one the head."""
    for title, rows in tables:
        if markdown:
            sys.stdout.write(_as_markdown(title, rows))
        else:
            Console().print(_as_rich(title, rows))


def _as_rich(title, rows):
    head, *rest = rows
    table = Table(title=title, title_justify="left")
    for place, name in enumerate(head):
        table.add_column(name, justify="right" if place else "left")
    for row in rest:
        table.add_row(*row)
    return table


def _as_markdown(title, rows):
    head, *rest = rows
    marks = ["---", *["---:"] * (len(head) - 1)]
    return f"**{title}**\n\n" + "".join(f"| {' | '.join(row)} |\n" for row in (head, marks, *rest)) + "\n"

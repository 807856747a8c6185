"""What maintainers' commands show: what goes on, and tables, for a terminal or a Markdown page."""

import sys
import time

from rich.console import Console
from rich.table import Table

_STDERR = Console(stderr=True)


def say(text):
    _STDERR.print(f"[dim]{time.strftime('%H:%M:%S')}[/dim]  {text}", soft_wrap=True, highlight=False)


def show(tables, markdown):
    """Prints each (title, rows) of `tables`: rows of text, the first one the head."""
    for title, rows in tables:
        if markdown:
            sys.stdout.write(_as_markdown(title, rows))
        else:
            Console().print(table(title, rows))


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

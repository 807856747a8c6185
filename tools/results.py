"""`python -m tools.results` writes docs/results.md, the table of all long runs, from docs/results.toml."""

from inflight_tools import toml
from tools.setup.common import CHECKOUT

SOURCE = CHECKOUT / "docs/results.toml"
PAGE = CHECKOUT / "docs/results.md"
COLUMNS = {name: name for name in "what command date tree cases failures where note".split()}
COLUMNS |= {"failures": "failures, losses", "where": "ran on"}
NOTE_LIMIT = 120  # characters: one line
_HEAD = """# Results

<!-- `.venv/bin/python -m tools.results` writes this page from results.toml. -->

[proof.md](proof.md) says what each command tests, [figures.md](figures.md) what the client costs. This page has the
runs themselves. **No run used hardware**: the boards are emulated, the flash of the random scripts is a model.

*Date* is the day on which the result was recorded, *tree* the commit that recorded it. A command with a seed repeats
its run on that tree. `make test-esp32` needs your own [emulator](proof.md#an-emulated-esp32).

"""


def runs():
    """The runs of the source, each {column: text}. ValueError names a run with a missing, unknown or too long field."""
    found = []
    for run in toml.read(SOURCE)["run"]:
        if run.keys() != COLUMNS.keys():
            raise ValueError(f"{SOURCE.name}: {run.get('what')!r} has the fields {[*run]}; write {[*COLUMNS]}")
        row = {name: str(run[name]) for name in COLUMNS}
        if any("\n" in text or "|" in text for text in row.values()) or len(row["note"]) > NOTE_LIMIT:
            allowed = f"one line without '|' a field, at most {NOTE_LIMIT} characters a note"
            raise ValueError(f"{SOURCE.name}: {row['what']!r}: {allowed}")
        found.append(row)
    return found


def page():
    lines = [COLUMNS.values(), ["---"] * len(COLUMNS)]
    for run in runs():
        lines.append((run | {"command": f"`{run['command']}`", "tree": f"`{run['tree']}`"}).values())
    return _HEAD + "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

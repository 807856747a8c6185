"""Draws the output of a demonstration for the documentation: `python -m tools.demo.demo_svg` runs one.

Lines appear when they came, three times as fast."""

import os
import re
import subprocess
import sys
import time
from html import escape
from pathlib import Path

import typer

from inflight_tools.cache import write_atomic
from tools.setup.common import CHECKOUT

_WIDTH, _LINE, _TOP = 720, 17, 52  # px
_COLUMNS = "88"
_FASTER = 3
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<title>make demo: {title}</title>
<!-- The output of one run, {faster} times as fast as it was. -->
<style>
text {{ font: 13px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #d0d4d8; white-space: pre; \
animation: show 0.01s backwards }}
.d {{ fill: #8b949e }} .g {{ fill: #3fb950; font-weight: bold }}
@keyframes show {{ from {{ opacity: 0 }} to {{ opacity: 1 }} }}
@media (prefers-reduced-motion: reduce) {{ text {{ animation: none }} }}
</style>
<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>
<circle cx="20" cy="18" r="6" fill="#f85149"/><circle cx="40" cy="18" r="6" fill="#d29922"/>\
<circle cx="60" cy="18" r="6" fill="#3fb950"/>
<g transform="translate(16)" xml:space="preserve">
"""
_TIME = re.compile(r"^( *[\d.]+ s)")
_ACCEPTED = re.compile(r"([\d,]+) messages accepted, waiting")
_CUTS = re.compile(r"power cuts survived: (\d+)")
_GOOD = "Nothing was lost"


def draw(lines):
    """The SVG of `lines`, [(seconds since the first one, text), ...]. Raises ValueError if it was no demonstration that
    lost nothing."""
    texts = "\n".join(text for _, text in lines)
    accepted, cuts = _ACCEPTED.search(texts), _CUTS.search(texts)
    if not (accepted and cuts and _GOOD in texts):
        raise ValueError("no output of a demonstration that lost nothing")
    title = f"{cuts[1]} power cuts, {int(accepted[1].replace(',', '')):,} messages accepted, none lost"
    height = _TOP + _LINE * len(lines) + _LINE
    parts = [_HEAD.format(width=_WIDTH, height=height, title=title, faster=_FASTER)]
    for number, (seconds, text) in enumerate([(0, "$ make demo"), *lines]):
        marked = _TIME.sub(r'<tspan class="d">\1</tspan>', escape(text))
        good = ' class="g"' if text.startswith(_GOOD) else ""
        delay = f'style="animation-delay:{seconds / _FASTER:.1f}s"'
        parts.append(f'<text{good} y="{_TOP + _LINE * number}" {delay}>{marked}</text>\n')
    return "".join([*parts, "</g>\n</svg>\n"])


def main(out: Path = typer.Option(CHECKOUT / "docs/demo.svg", help="the file to write")):
    """Runs a demonstration, prints its output, and draws it."""
    lines = []
    command = [sys.executable, "-u", "-m", "tools.demo"]
    env = {**os.environ, "COLUMNS": _COLUMNS}
    with subprocess.Popen(command, cwd=CHECKOUT, env=env, stdout=subprocess.PIPE, text=True) as demo:
        for line in demo.stdout:
            lines.append((time.monotonic(), line.rstrip().replace(f"{CHECKOUT}/", "")))
            typer.echo(lines[-1][1])
    if demo.returncode:
        raise typer.Exit(demo.returncode)
    write_atomic(out, draw([(at - lines[0][0], text) for at, text in lines]))


if __name__ == "__main__":
    typer.run(main)

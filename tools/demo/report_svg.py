"""Draws the head of a report for the documentation: `python -m tools.demo.report_svg`, after `make demo`.

Verdict, figures, timeline and colours are those of the page."""

import re
from html import unescape
from pathlib import Path

import typer

from inflight_tools.cache import write_atomic
from tools.demo.__main__ import REPORT
from tools.setup.common import CHECKOUT

_STYLE = """
text { font: 11.5px system-ui, "DejaVu Sans", Arial, sans-serif; fill: var(--quiet) } .value { text-anchor: end }
.tick, .within { text-anchor: middle } .lane { fill: var(--ink); font-size: 12px } .day { font-size: 10.5px }
.label { font-weight: 650 } .verdict { font-size: 22px; font-weight: 650; fill: var(--ink) }
.head { font-size: 13px; fill: var(--ink) } .big { font-size: 26px; font-weight: 650; fill: var(--ink) }
.note { font-size: 10.5px } .page { fill: var(--page) } .card { fill: var(--card); stroke: var(--rule) }
"""
_RULES = re.compile(r"^\.(?:grid|live|backlog|outage|mark|p-backlog|p-line|p-void)\b.*\}$", re.M)
_VERDICT = re.compile(
    r'<p class="label">.*?</svg> (?P<label>.*?)</p>\s*<h1 [^>]*data-kind="(?P<kind>\w+)">(?P<h1>.*?)</h1>', re.S
)
_SUM = re.compile(
    r'<dt>(?:<svg.*?</svg>)?(.*?)<dd><span class="sign">(.?)</span>\s*<data [^>]*>(.*?)</data>\s*'
    r'<dd class="quiet">(.*?)</div>',
    re.S,
)
_COLOURS = {"good": "good", "waiting": "link", "bad": "bad", "empty": "quiet"}  # of the verdict's kind
_CARD = '<rect class="card" x="8" y="{}" width="1104" height="{}" rx="6"/>'


def _as_xml(html):
    """Attributes with quotation marks, as the page has not always; without those that the page's script needs."""

    def quoted(tag):
        return re.sub(r' (?:id|data-\w+)="[^"]*"', "", re.sub(r'=([^\s">]+?)(?=\s|/?>)', r'="\1"', tag[0]))

    return re.sub(r"<[^>]+>", quoted, html)


def draw(page):
    """The SVG of a page, both as text. Raises ValueError."""
    verdict = _VERDICT.search(page)
    sums = re.search(r'<dl class="sums">(.*?)</dl>', page, re.S)
    timeline = re.search(r'<svg class="chart wide" [^>]*>.*?<desc [^>]*>(.*?)</desc>(.*?)</svg>', page, re.S)
    if not (verdict and sums and timeline):
        raise ValueError("this is no report with a timeline")
    style = re.search(r"<style>(.*?)</style>", page, re.S)[1]
    light, dark = re.findall(r":root \{(.*?)\}", style, re.S)[:2]
    colour = f"var(--{_COLOURS[verdict['kind']]})"
    parts = [
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1120 580" role="img">',
        f"<title>{verdict['h1']} {timeline[1]}</title>",
        f"<style>:root {{{light}}}\n@media (prefers-color-scheme: dark) {{ :root {{{dark}}} }}{_STYLE}",
        *_RULES.findall(style),
        "</style>",
        re.search(r"<defs>.*?</defs>", page, re.S)[0],
        '<rect class="page" width="1120" height="580"/>',
        _CARD.format(8, 80),
        f'<rect x="8" y="8" width="6" height="80" style="fill: {colour}"/>',
        f'<text class="label" x="30" y="34" style="fill: {colour}">{verdict["label"]}</text>',
        f'<text class="verdict" x="30" y="66">{verdict["h1"]}</text>',
    ]  # fmt: skip
    for number, (words, sign, figure, note) in enumerate(_SUM.findall(sums[1])):
        told = (("head", 0, words), ("big", 34, f"{sign} {figure}"), ("note", 56, note))
        lines = "".join(f'<text class="{name}" y="{y}">{text}</text>' for name, y, text in told)
        parts.append(f'<g transform="translate({20 + 180 * number} 120)">{lines}</g>')
    parts += [_CARD.format(200, 372), f'<g transform="translate(20 214)">{_as_xml(timeline[2])}</g>', "</svg>\n"]
    return "\n".join(parts)


def main(
    page: Path = typer.Argument(REPORT, help="the page of a demonstration"),
    out: Path = typer.Option(CHECKOUT / "docs/report.svg", help="the drawing"),
):
    """Draws the head of a report for the documentation."""
    try:
        drawing = draw(page.read_text(encoding="utf-8"))
    except (OSError, ValueError) as e:
        raise typer.BadParameter(f"{page}: {e}: run `make demo` first") from None
    write_atomic(out, drawing)
    print(f"{out}: {unescape(re.search('<title>(.*?)</title>', drawing)[1])}")


if __name__ == "__main__":
    typer.run(main)

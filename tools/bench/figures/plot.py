"""Line plots as SVG, for light and dark pages."""

import math
from html import escape

_W, _H = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 150, 40, 48
# The colours of Okabe and Ito, which colour-blind people can distinguish. Grey is for the ceiling.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_GREY = "#888888"
_STYLE = """
text { font: 12px system-ui, sans-serif; fill: #444 } .title { font-size: 15px; font-weight: 600 }
.grid { stroke: #8884; stroke-width: 1 } path { fill: none; stroke-width: 2 }
@media (prefers-color-scheme: dark) { text { fill: #ccc } }
"""


def _axis(values, start, end):
    """(function from a value to its coordinate, values of the grid): logarithmic, over whole decades. 0 is drawn one
    decade below the first."""
    above = [value for value in values if value > 0]
    low = math.floor(math.log10(min(above)) + 1e-9)
    high = max(low + 1, math.ceil(math.log10(max(above)) - 1e-9))
    grid = [0] * (min(values) <= 0) + [10**k for k in range(low, high + 1)]

    def place(value):
        first = high + 1 - len(grid)
        share = ((math.log10(value) if value > 0 else first) - first) / (high - first)
        return round(start + share * (end - start), 1)

    return place, grid


def _text(x, y, words, look='text-anchor="middle"'):
    return f'<text x="{x}" y="{y}" {look}>{escape(words)}</text>'


def _number(value):
    return f"{value:,}" if value >= 1 or not value else f"{value:g}"


def svg(title, x_label, y_label, lines):
    """`lines`: {label: [[x, y], ...]}; a label that begins with "ceiling" is drawn grey and dashed."""
    xs, ys = zip(*(point for line in lines.values() for point in line), strict=True)
    right, bottom = _W - _RIGHT, _H - _BOTTOM
    (across, x_grid), (up, y_grid) = _axis(xs, _LEFT, right), _axis(ys, bottom, _TOP)
    parts = [_text(_LEFT, 22, title, 'class="title"'), _text((_LEFT + right) / 2, _H - 10, x_label)]
    parts.append(_text(0, 0, y_label, f'transform="translate(14 {_H / 2}) rotate(-90)" text-anchor="middle"'))
    for value, x in ((value, across(value)) for value in x_grid):
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(_text(x, bottom + 18, _number(value)))
    for value, y in ((value, up(value)) for value in y_grid):
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y}" y2="{y}"/>')
        parts.append(_text(_LEFT - 8, y + 4, _number(value), 'text-anchor="end"'))
    colours, lowest = iter(_COLOURS * 2), 0
    # Labels are at the ends of their lines, from top to bottom, and do not overlap.
    for label, line in sorted(lines.items(), key=lambda item: -item[1][-1][1]):
        ceiling = label.startswith("ceiling")
        colour, dashes = (_GREY, ' stroke-dasharray="5 4"') if ceiling else (next(colours), "")
        path = " ".join(f"{across(x)},{up(y)}" for x, y in line)
        parts.append(f'<path d="M{path}" stroke="{colour}"{dashes}/>')
        lowest = max(up(line[-1][1]), lowest + 15)
        parts.append(_text(across(line[-1][0]) + 8, lowest + 4, label, f'style="fill: {colour}"'))
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_W} {_H}" role="img">'
    return head + f"<title>{escape(title)}</title><style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"

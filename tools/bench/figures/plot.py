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


class _Axis:
    """From values to coordinates: logarithmic, over whole decades. 0 is drawn one decade below the first."""

    def __init__(self, values, start, end):
        above = [value for value in values if value > 0]
        self._low = math.floor(math.log10(min(above)) + 1e-9)
        self._high = max(self._low + 1, math.ceil(math.log10(max(above)) - 1e-9))
        self._zero = min(values) <= 0
        self._start, self._end = start, end

    def place(self, value):
        first = self._low - self._zero
        share = ((math.log10(value) if value > 0 else first) - first) / (self._high - first)
        return round(self._start + share * (self._end - self._start), 1)

    def ticks(self):
        return [0] * self._zero + [10**k for k in range(self._low, self._high + 1)]


def _text(value):
    return f"{value:,}" if value >= 1 or not value else f"{value:g}"


def svg(title, x_label, y_label, lines):
    """`lines`: {label: [[x, y], ...]}; a label that begins with "ceiling" is drawn grey and dashed."""
    points = [point for line in lines.values() for point in line]
    across = _Axis([x for x, _ in points], _LEFT, _W - _RIGHT)
    up = _Axis([y for _, y in points], _H - _BOTTOM, _TOP)
    parts = [f'<text class="title" x="{_LEFT}" y="22">{escape(title)}</text>']
    for value in across.ticks():
        x = across.place(value)
        parts.append(f'<line class="grid" x1="{x}" x2="{x}" y1="{_TOP}" y2="{_H - _BOTTOM}"/>')
        parts.append(f'<text x="{x}" y="{_H - _BOTTOM + 18}" text-anchor="middle">{_text(value)}</text>')
    for value in up.ticks():
        y = up.place(value)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_W - _RIGHT}" y1="{y}" y2="{y}"/>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4}" text-anchor="end">{_text(value)}</text>')
    parts.append(f'<text x="{(_LEFT + _W - _RIGHT) / 2}" y="{_H - 10}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(f'<text transform="translate(14 {_H / 2}) rotate(-90)" text-anchor="middle">{escape(y_label)}</text>')
    parts += _curves(lines, across, up)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_W} {_H}" role="img">'
        f"<title>{escape(title)}</title><style>{_STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _curves(lines, across, up):
    colours = iter(_COLOURS * 2)
    lowest = 0
    # Labels are at the ends of their lines, from top to bottom, and do not overlap.
    for label, line in sorted(lines.items(), key=lambda item: -item[1][-1][1]):
        ceiling = label.startswith("ceiling")
        colour = _GREY if ceiling else next(colours)
        dashes = ' stroke-dasharray="5 4"' if ceiling else ""
        path = " ".join(f"{across.place(x)},{up.place(y)}" for x, y in line)
        yield f'<path d="M{path}" stroke="{colour}"{dashes}/>'
        lowest = max(up.place(line[-1][1]), lowest + 15)
        x = across.place(line[-1][0]) + 8
        yield f'<text x="{x}" y="{lowest + 4}" style="fill: {colour}">{escape(label)}</text>'

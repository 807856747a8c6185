"""Parses a page into a tree of elements, as a browser does. Knows which end tags may be omitted."""

from html.parser import HTMLParser

_VOID = ("input", "link", "meta")
_ENDS = {  # a start tag ends open elements of these tags
    "tr": ("td", "th", "tr"), "td": ("td", "th"), "th": ("td", "th"), "tbody": ("td", "th", "tr", "thead", "tbody"),
    "dt": ("dt", "dd"), "dd": ("dt", "dd"), "li": ("li",), "option": ("option",),
}  # fmt: skip
_SCOPES = ("table", "dl", "ul", "ol", "select")  # start tags inside do not end elements outside


class Element:
    def __init__(self, tag, attributes):
        self.tag, self.attributes = tag, dict(attributes)
        self.children = []  # elements and text

    def all(self, tag=None, **attributes):
        """All matching elements below, in order. `class_` is one of an element's classes."""
        for child in self.children:
            if isinstance(child, Element):
                if tag in (None, child.tag) and all(child.has(key, value) for key, value in attributes.items()):
                    yield child
                yield from child.all(tag, **attributes)

    def one(self, tag=None, **attributes):
        return next(self.all(tag, **attributes))

    def has(self, key, value):
        if key == "class_":
            return value in (self.attributes.get("class") or "").split()
        return self.attributes.get(key) == value

    @property
    def text(self):
        return "".join(child if isinstance(child, str) else child.text for child in self.children)


class _Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = [Element("", ())]

    def handle_starttag(self, tag, attributes):
        for _ in range(3):  # a row ends a cell, a row and the body before it
            if self.open[-1].tag in _ENDS.get(tag, ()) and self.open[-1].tag not in _SCOPES:
                self.open.pop()
        element = Element(tag, attributes)
        self.open[-1].children.append(element)
        if tag not in _VOID:
            self.open.append(element)

    def handle_startendtag(self, tag, attributes):
        self.open[-1].children.append(Element(tag, attributes))

    def handle_endtag(self, tag):
        while self.open.pop().tag != tag:
            assert len(self.open) > 1, f"</{tag}> ends nothing"

    def handle_data(self, data):
        self.open[-1].children.append(data)


def read(page):
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader.open) == 1, f"{reader.open[-1].tag} has no end"
    return reader.open[0]


def value(page, identity):
    """The exact value of a figure of the page. None if it is unknown."""
    data = page.one("data", id=identity).attributes["value"]
    return None if data == "" else float(data)


def shown(number):
    """A count as the page shows it."""
    return f"{number:,}"


def fleet_figures(facts):
    """{element id: number} of all figures of the fleet."""
    fleet = dict(facts["fleet"])
    latency = fleet.pop("latency_ms") or dict.fromkeys(("p50", "p95", "p99"))
    return {f"fleet-{key}": number for key, number in {**fleet, **latency}.items()}

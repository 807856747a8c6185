"""The documentation pages and their code blocks."""

import re
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((CHECKOUT / "examples").glob("*.py"))
PAGES = [CHECKOUT / "README.md", CHECKOUT / "CONTRIBUTING.md", CHECKOUT / "examples/README.md"]
PAGES += sorted((CHECKOUT / "docs").rglob("*.md"))

_FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced code block."""

    page: Path
    line: int
    language: str
    text: str

    def __str__(self):
        return f"{self.page.relative_to(CHECKOUT)}:{self.line}"


def first_program(page, host, port):
    """The first program of a page, `README.md` for one, for the broker there."""
    program = next(block.text for block in blocks("python") if block.page == CHECKOUT / page)
    changed, n = re.subn(r'Client\("broker.example", (.*)\)\n', rf'Client("{host}", \1, port={port})\n', program)
    assert n == 1
    return changed


def blocks(*languages):
    """All blocks of these languages; without languages, all blocks."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for fence in _FENCE.finditer(text):
            if not languages or fence[2] in languages:
                found.append(Block(page, text.count("\n", 0, fence.start()) + 1, fence[2], fence[3]))
    return found

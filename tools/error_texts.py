"""`python -m tools.error_texts` writes docs/guide/error-texts.md, the texts of all errors that the library raises or
reports, from docs/error-texts.toml: a row for texts with the same cause."""

import ast
import re

from inflight_tools import toml
from tools.setup.common import CHECKOUT

LIBRARY = CHECKOUT / "lib/inflight"
SOURCE = CHECKOUT / "docs/error-texts.toml"
PAGE = CHECKOUT / "docs/guide/error-texts.md"
FIELDS = ("part", "texts", "cause", "do")
VALUE = "…"  # in a text: what differs from time to time
_ERRORS = {"ValueError", "TypeError", "RuntimeError", "OSError", "ProtocolError", "OutboxFull", "_fail"}
_HEAD = """# The texts of errors

<!-- `.venv/bin/python -m tools.error_texts` writes this page from docs/error-texts.toml. -->

Search this page for a part of the text that you see; "…" stands for a value. [errors.md](errors.md) says which call
raises what.
"""


class _Texts(ast.NodeVisitor):
    """Finds the texts of errors in a module, or in one function of it."""

    def __init__(self, names, in_class=""):
        self.names = names  # {name of a variable: the texts that it may have, or the tuple that it is}
        self.found = set()  # {(text, class of the error, name of its errno)}
        self._class = in_class

    def visit_ClassDef(self, node):
        outer, self._class = self._class, node.name
        self.generic_visit(node)
        self._class = outer

    def visit_FunctionDef(self, node):
        inner = _Texts(dict(self.names), self._class)
        inner.generic_visit(node)
        self.found |= inner.found

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Assign(self, node):
        name = getattr(node.targets[0], "id", None)
        if isinstance(node.value, ast.Tuple):
            self.names[name] = node.value
        else:  # another branch may have given it another text
            known = self.names.get(name)
            self.names[name] = (known if isinstance(known, set) else set()) | self.texts(node.value)
        self.generic_visit(node)

    def visit_For(self, node):
        table = self.names.get(getattr(node.iter, "id", None))
        if isinstance(table, ast.Tuple) and isinstance(node.target, ast.Tuple):
            for i, target in enumerate(node.target.elts):
                if isinstance(target, ast.Name):
                    rows = [row.elts[i] for row in table.elts if isinstance(row, ast.Tuple)]
                    self.names[target.id] = set().union(*map(self.texts, rows))
        self.generic_visit(node)

    def visit_Call(self, node):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        of_class = name == "__init__"  # of a class of errors: super().__init__(errno, text)
        if node.args and (of_class or name in _ERRORS):
            behind_errno = len(node.args) > 1 and (of_class or name == "OSError")
            error = self._class if of_class else "OSError" if name == "_fail" else name
            errno = "EIO" if name == "_fail" else _errno(node.args[0]) if behind_errno else ""
            self.found |= {(text, error, errno) for text in self.texts(node.args[1 if behind_errno else 0])}
        self.generic_visit(node)

    def texts(self, node):
        """The texts that an expression may make, with VALUE for what is not known."""
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return {node.value}
        if isinstance(node, ast.Name):
            known = self.names.get(node.id)
            return known if isinstance(known, set) else set()
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            return {re.sub(r"%\d*[a-z]", VALUE, text) for text in self.texts(node.left)}
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
            left, right = self.texts(node.left), self.texts(node.right)
            return {a + b for a in left or {VALUE} for b in right or {VALUE}} if left or right else set()
        return set()


def _errno(node):
    """The name of an errno in the code, "" if it is not always the same."""
    name = getattr(node, "id", getattr(node, "attr", "")).lstrip("_")
    return name if name.startswith("E") else ""


def texts():
    """{text: {(class of the error, name of its errno or ""), ...}} of the library."""
    found = {}
    for path in LIBRARY.rglob("*.py"):
        module = _Texts({})
        module.visit(ast.parse(path.read_text("utf-8")))
        for text, *error in module.found:
            found.setdefault(text, set()).add(tuple(error))
    return found


def _errors(row, there):
    """The classes of errors that have the texts of the row, with what errno may be."""
    found = sorted(set().union(*(there[text] for text in row["texts"])))
    names = {error: [errno for name, errno in found if name == error and errno] for error, _ in found}
    return "<br>".join(f"`{error}`" + (f" ({', '.join(errnos)})" if errnos else "") for error, errnos in names.items())


def rows():
    """The rows of the source. ValueError if a field is missing, or if not each text of the library has one row."""
    found = toml.read(SOURCE)["row"]
    for row in found:
        if tuple(row) != FIELDS:
            raise ValueError(f"{SOURCE.name}: {row.get('texts')} has the fields {[*row]}; write {[*FIELDS]}")
    explained = [text for row in found for text in row["texts"]]
    there = texts().keys()
    for what, some in (
        ("no row has", there - {*explained}),
        ("the library has no text", {*explained} - there),
        ("two rows have", {text for text in explained if explained.count(text) > 1}),
    ):
        if some:
            raise ValueError(f"{SOURCE.name}: {what} {sorted(some)}")
    return found


def page():
    """The text of the page."""
    lines = [_HEAD]
    there = texts()
    part = None
    for row in rows():
        if row["part"] != part:
            part = row["part"]
            lines.append(f"\n## {part}\n\n| error | text | cause | what to do |\n|---|---|---|---|\n")
        shown = "<br>".join(f"`{text}`" for text in sorted(row["texts"]))
        lines.append(f"| {_errors(row, there)} | {shown} | {row['cause']} | {row['do']} |\n")
    return "".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), "utf-8")

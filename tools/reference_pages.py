"""`python -m tools.reference_pages` writes docs/reference: the library's names from its .pyi and docstrings, the
configuration's fields from the comments in the firmware, the commands from their --help."""

import ast
import inspect
import re

import typer

import inflight
from inflight.client import options
from inflight.client.base import Base
from inflight.client.handlers import Message
from inflight_tools import cli
from inflight_tools.settings import config_fields
from tools.setup.common import CHECKOUT

FOLDER = CHECKOUT / "docs/reference"
_HEAD = """# {}

<!-- `.venv/bin/python -m tools.reference_pages` writes this page. -->

{}
"""

# --- the library ---

_ARGUMENTS = inspect.signature(options.Options.configure)
_RANGES = {name: f"{least} to {most}" for name, least, most, _ in options._NUMBERS + options._OPTIONAL_NUMBERS}


def _docstring(thing, signature=None):
    """The docstring as Markdown: its list of arguments with their defaults, and with their ranges."""
    parts = []
    for part in inspect.cleandoc(thing.__doc__).split("\n\n"):
        if re.search(r"^\w+(, \w+)*  +\S|^\w+\n  ", part, re.M):
            rows = [re.match(r"(\w+(?:, \w+)*)\s+(.*)", row) for row in re.sub(r"\n  +", " ", part).split("\n")]
            part = "\n".join(f"- `{row[1]}`{_allowed(row[1], signature)}: {row[2]}" for row in rows)
        parts.append(part)
    return "\n\n".join(parts).replace("Base tells its arguments", "[Its arguments](#arguments) are below")


def _allowed(name, signature):
    known = [_RANGES[name]] if signature is _ARGUMENTS and name in _RANGES else []
    argument = signature.parameters.get(name) if signature else None
    if argument and argument.default not in (None, inspect.Parameter.empty, "", ()) and name != "port":
        known.insert(0, f"default `{argument.default!r}`")
    return f" ({', '.join(known)})" if known else ""


def _members(name, node, thing):
    """Attributes of a class with their types, and its methods with their docstrings."""
    attributes, methods = [], []
    for member in node.body:
        if isinstance(member, ast.AnnAssign):
            attributes.append(f"`{ast.unparse(member)}`")
        elif isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)) and not member.name.startswith("_"):
            found = getattr(thing, member.name, None)
            if isinstance(found, property) or found is None and member.decorator_list:
                attributes.append(f"`{member.name}: {ast.unparse(member.returns)}`")
            elif getattr(found, "__doc__", None):
                arguments = re.sub(r"self(, )?", "", str(inspect.signature(found)))
                text = f"\n### {name}.{member.name}()\n\n`{member.name}{arguments}`\n\n{_docstring(found)}\n"
                methods += [text] if text not in methods else []  # an overload has one
    return [f"\nAttributes: {', '.join(attributes)}\n"] * bool(attributes) + methods


def library():
    lines = ["[Counters](../guide/counters.md) and [errors](../guide/errors.md) have pages of their own.\n"]
    nodes = ast.parse((CHECKOUT / "lib/inflight/__init__.pyi").read_text("utf-8")).body
    for node in sorted(nodes, key=lambda node: "Client" not in getattr(node, "name", "")):
        names = [alias.asname for alias in getattr(node, "names", ()) if alias.asname] or [getattr(node, "name", "_")]
        for name in [name for name in names if not name.startswith("_")]:
            thing = getattr(inflight, name, Message if name == "Message" else None)
            lines.append(f"\n## {name}\n")
            if getattr(thing, "__doc__", None):
                is_error = isinstance(thing, type) and issubclass(thing, Exception)
                signature = None if is_error or thing is Message else inspect.signature(thing)
                lines += [f"\n`{name}{signature}`\n"] * bool(signature)
                lines.append(f"\n{_docstring(thing, signature)}\n")
            lines += _members(name, node, thing) if isinstance(node, ast.ClassDef) else []
        if getattr(node, "name", "") == "AsyncClient":
            shared = next(node for node in nodes if getattr(node, "name", "") == "_Base")
            lines += ["\n## Both clients\n", *_members("Client", shared, Base)]
            lines += ["\n## Arguments\n\n", _docstring(Base, _ARGUMENTS), "\n"]
    return _HEAD.format("The library", "".join(lines).rstrip())


# --- the configuration ---


def configuration():
    lines = ["[configuration.md](../configuration.md) explains which fields belong together.\n\n"]
    lines.append("| field | default | value |\n|---|---|---|\n")
    for name, (meaning, default, limits, _) in config_fields().items():
        allowed = f"{limits[0]} to {limits[1]}: " if limits else ""
        shown = f"`{default}`" if default not in ("", "needed") else default
        lines.append(f"| `{name}` | {shown} | {allowed}{meaning} |\n")
    return _HEAD.format("Fields of the configuration", "".join(lines).rstrip())


# --- the commands ---


def _commands(command, words):
    for name, inner in getattr(command, "commands", {}).items():
        yield from _commands(inner, [*words, name])
    if not hasattr(command, "commands"):
        yield f"\n## {' '.join(words)}\n\n{inspect.cleandoc(command.help)}\n\n"
        for argument in command.params:
            default = argument.show_default if isinstance(argument.show_default, str) else argument.default
            name = argument.opts[0] if argument.param_type_name == "option" else argument.name.upper()
            yield f"- `{name}`: {argument.help}" + (f"; default: {default}\n" if default else "\n")
        yield f"\n{inspect.cleandoc(command.epilog)}\n"


def commands():
    found = _commands(typer.main.get_command(cli.build()), ["inflight"])
    return _HEAD.format(
        "Commands", "`--help` behind a command prints the same.\n" + "".join(found).replace("*", r"\*").rstrip()
    )


PAGES = {"client.md": library, "configuration.md": configuration, "commands.md": commands}

if __name__ == "__main__":
    for name, page in PAGES.items():
        (FOLDER / name).write_text(page(), "utf-8")

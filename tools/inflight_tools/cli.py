"""The command `inflight`: groups of commands for boards, devices and fleets, and commands without a group."""

import ast
import importlib
import os
import sys
from pathlib import Path

import inflight
from inflight_tools.extras import not_installed

# command: (the package behind it, the extra that it needs)
_GROUPS = {"board": ("boards", "boards"), "device": ("devices", "boards"), "fleet": ("fleet", "fleet")}
# command: (its module, an example of its arguments); they need the extra "boards"
_ALONE = {
    "new": ("project.new", "sensor moisture"),
    "test": ("project.test", "moisture"),
    "keys": ("update.keys", "--signing-key release.key"),
    "release": ("update.release", "--board pico_w --number 7 --signing-key release.key"),
    "rollout": ("update.rollout", "build/pico_w-7.release --config attic.json"),
    "serve": ("fleet.console.command", "--broker broker.example"),
    "installer": ("installer.folder", "--out public --board esp32 --board pico_w"),
}
_COMPLETION = "_INFLIGHT_COMPLETE"  # the variable with which a shell asks for completions
_HELP = """Boards and fleets of Inflight, the MQTT client that never loses a message.

Exit status of every command: 0 done, 1 failed, 2 wrong arguments. The option --install-completion lets your shell
complete commands and options."""


def main():
    if sys.argv[1:] == ["--version"]:  # of the client alone, too
        print(f"inflight {inflight.__version__}")
        return
    try:
        import typer  # noqa: F401 (whoever has only the client is told what to install)
    except ModuleNotFoundError:
        sys.exit("inflight: " + not_installed("the command", "boards", "fleet"))
    asked = sys.argv[1:2] or ([] if _COMPLETION in os.environ else ["--help"])
    build(*asked)(prog_name="inflight")


def build(asked=None):
    """The Typer with all commands. A group with missing packages reports that when it is called. asked: the first word
    of a command line; if it names a command, the others are not loaded; for the list of commands none is."""
    import typer

    from inflight_tools.group import Group

    app = Group(help=_HELP)

    @app.callback(invoke_without_command=True)
    def options(version: bool = typer.Option(False, "--version", help="print the version of Inflight")):
        if version:
            print(f"inflight {inflight.__version__}")
            raise typer.Exit

    if asked in ("--help", "--version"):
        for name, (package, _) in _GROUPS.items():
            _stand_in(app, name, importlib.import_module(f"inflight_tools.{package}").__doc__)
        for name, (module, _) in _ALONE.items():
            _stand_in(app, name, _docstring(module))
        return app
    known = asked in {*_GROUPS, *_ALONE}
    for name, (package, extra) in _GROUPS.items():
        if known and name != asked:
            continue
        try:
            app.add_typer(importlib.import_module(f"inflight_tools.{package}.commands").app, name=name)
        except ModuleNotFoundError as error:
            _stand_in(app, name, _reason(error.name, extra))
    for name, (module, example) in _ALONE.items():
        if known and name != asked:
            continue
        try:
            found = importlib.import_module(f"inflight_tools.{module}")
        except ModuleNotFoundError as error:
            _stand_in(app, name, _reason(error.name, "boards"))
        else:
            alone = Group()  # the help lists commands of its own before groups
            alone.add(f"{name} {example}")(found.main)
            app.add_typer(alone)
    return app


def _docstring(module):
    """The help of a command, of the function main() in its module, which is not loaded for that."""
    tree = ast.parse((Path(__file__).parent / f"{module.replace('.', '/')}.py").read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return next(ast.get_docstring(node) for node in functions if node.name == "main")


def _reason(missing, extra):
    if missing == "fcntl":
        return "it needs Linux or macOS"
    return not_installed(missing, extra)


def _stand_in(app, name, reason):
    """A command `name` that reports why it cannot work, whatever its arguments."""

    @app.command(name, help=reason, context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
    def refuse():
        sys.exit(f"inflight {name}: {reason}")

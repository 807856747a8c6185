"""The command `inflight`: its sub-commands, missing packages, exit status."""

import ast
import collections
import re
import subprocess
import sys
import typing
from pathlib import Path

import pytest
import typer
from typer.main import get_command
from typer.testing import CliRunner

from inflight import __version__
from inflight_tools import cli
from tools.setup.common import CHECKOUT

COMMANDS = {
    "board": {"image", "flash", "deploy", "monitor", "freeze", "library", "traceback"},
    "device": {"list", "show", "set", "backup", "restore", "log", "restart", "update"},
    "fleet": {"collect", "tables", "report", "check", "compact", "export", "pipeline", "where", "upload"}
    | {"download", "history", "service"},
    "fleet device": {"retire", "rename", "expect", "group", "note", "list"},
}
NAMES = [(*group.split(), name) for group, names in COMMANDS.items() for name in sorted(names)]
NAMES += [("new",), ("test",), ("installer",), ("keys",), ("release",), ("rollout",), ("serve",)]


def options(app):
    """Yields (name, type, its typer.Option) of each option of each command."""
    for group in app.registered_groups:
        yield from options(group.typer_instance)
    for command in app.registered_commands:
        for name, hint in typing.get_type_hints(command.callback, include_extras=True).items():
            kind, declared = typing.get_args(hint)  # all are Annotated
            if not isinstance(declared, typer.models.ArgumentInfo):
                given = declared.default  # of what is Annotated, the name if it has one
                yield given if isinstance(given, str) else "--" + name.replace("_", "-"), kind, declared


def bare(kind):
    """What a value of this type consists of: str of list[str] | None."""
    inner = [word for word in typing.get_args(kind) if word is not type(None)]
    return bare(inner[0]) if inner else kind


COMMAND = cli.build()


def run(*words, command=COMMAND):
    return CliRunner().invoke(command, words, env={"COLUMNS": "200", "NO_COLOR": "1"})


def test_the_groups_and_their_commands():
    found = get_command(COMMAND).commands
    groups = {name: dict(command.commands) for name, command in found.items() if hasattr(command, "commands")}
    groups["fleet device"] = groups["fleet"].pop("device").commands
    assert {group: set(groups[group]) for group in groups} == COMMANDS
    assert found.keys() - groups.keys() == {"installer", "keys", "new", "release", "rollout", "serve", "test"}


@pytest.mark.parametrize("words", NAMES, ids=" ".join)
def test_the_help_of_each_command(words):
    """It is complete, and of this command alone: options of several commands have a text that fits each. Flags take no
    value, and show no type."""
    done = run(*words, "--help")
    assert done.exit_code == 0
    assert f"Example: inflight {' '.join(words)} " in done.output
    assert "Exit status: 0 done, 1 failed, 2 wrong arguments" in done.output
    assert "<bool>" not in done.output
    command = get_command(COMMAND)
    for word in words:
        command = command.commands[word]
    assert [parameter.name for parameter in command.params if not parameter.help] == []
    names = "|".join({name[-1] for name in NAMES} - {words[-1]})
    assert not [option.help for option in command.params if re.search(rf"`({names})`", option.help)]
    assert run(*words, "--no-such-option").exit_code == 2


BOARDS = ["esp32", "esp32s2", "esp32s3", "esp32c3", "esp32c6", "pico_w", "pico2_w"]
WITHOUT_IMAGE = ("deploy", "freeze", "library", "release")
WITH_BOARD = [words for words in NAMES if words[-1] in ("image", "flash", "installer", *WITHOUT_IMAGE)]


@pytest.mark.parametrize("words", WITH_BOARD, ids=" ".join)
def test_an_unknown_board_is_a_wrong_argument(words, tmp_path, monkeypatch):
    """It is told which ones there are, those without an image only where none is made; a shell completes the same."""
    monkeypatch.chdir(tmp_path)
    taken = BOARDS + (["rp2040", "unix"] if words[-1] in WITHOUT_IMAGE else [])
    done = run(*words, "--board", "esp8266", *(["--number", "1"] if words == ("release",) else []))
    assert done.exit_code == 2 and not list(tmp_path.iterdir())
    told = " ".join(done.output.replace("│", " ").split())
    assert f"Invalid value for '--board': 'esp8266' is not one of {', '.join(taken)} " in told + " "
    line = " ".join(("inflight", *words, "--board", ""))
    shell = {"_INFLIGHT_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) + 2)}
    completed = CliRunner().invoke(COMMAND, [], env=shell, prog_name="inflight").output
    assert completed.split() == taken


@pytest.mark.parametrize(
    ("word", "others"),
    [
        ("fleet", "boards.commands devices.commands update.keys installer.folder project.new"),
        ("keys", "fleet.commands update.rollout installer.folder project.new"),
        ("--help", "boards.commands devices.commands fleet.commands update.keys installer.folder project.new"),
    ],
)
def test_a_command_does_not_load_the_others(word, others):
    """Each would take as long to start as all together."""
    code = "import sys; from inflight_tools.cli import build; build(sys.argv[1]); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code, word], check=True, capture_output=True, text=True).stdout
    assert "inflight_tools" in loaded
    assert not [name for name in others.split() if f"inflight_tools.{name}" in loaded.split()]


def test_the_list_of_commands_is_the_same_without_them():
    """It offers completion."""
    whole, shown = (run("--help", command=cli.build(*asked)).stdout for asked in ((), ("--help",)))
    assert shown == whole and "--install-completion" in whole and "<bool>" not in whole


def test_a_group_without_its_packages_says_what_to_install(monkeypatch):
    for module in [name for name in sys.modules if name.startswith("inflight_tools.fleet.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "paho.mqtt.client", None)
    command = cli.build()
    done = run("fleet", "collect", "--landing", "x", command=command)
    assert done.exit_code != 0 and "in the checkout, pip install '.[fleet]'" in str(done.exception)
    assert run("board", "image", "--help", command=command).exit_code == 0
    assert run("release", "--help", command=command).exit_code == 0


_OWN = ("show_default", "help", "callback", "autocompletion")


def test_an_option_means_the_same_in_every_command():
    """Its type and its bounds; some commands need it, or take several. A default and a help are a command's own."""
    meanings = collections.defaultdict(list)
    for name, kind, declared in options(COMMAND):
        meaning = {key: value for key, value in vars(declared).items() if key not in _OWN}
        meanings[name].append(meaning | {"type": bare(kind)})
    assert len(meanings["--key"]) == 17 and len(meanings["--json"]) == 17
    assert {name for name, found in meanings.items() if any(meaning != found[0] for meaning in found)} == set()


def test_the_version_is_printed():
    assert run("--version").stdout == f"inflight {__version__}\n"


def test_messages_name_options_and_not_the_variables_of_make():
    """Whoever has typed `inflight ... --port` does not know PORT=."""
    makefile = (CHECKOUT / "Makefile").read_text()
    variables = set(re.findall(r"--[a-z0-9-]+ \"?\$\(([A-Z0-9_]+)\)", makefile))
    variables |= set(re.findall(r"\$\(filter 1,\$\(([A-Z0-9_]+)\)\),--", makefile))
    assert {"PORT", "FLASH_MB", "ROMFS", "BROKER", "WAIT"} <= variables
    variable = re.compile(rf"\b({'|'.join(sorted(variables))})=(?!FILE)")  # --board-firmware takes BOARD=FILE
    modules = sorted(Path(cli.__file__).parent.rglob("*.py"))
    values = [getattr(node, "value", None) for module in modules for node in ast.walk(ast.parse(module.read_text()))]
    texts = [value for value in values if isinstance(value, str)]
    assert len(texts) > 500
    assert [text for text in texts if variable.search(text)] == []

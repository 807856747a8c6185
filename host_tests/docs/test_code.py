"""Code blocks of README and docs: Python runs, commands exist, settings are valid."""

import functools
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys

import pytest
import yaml

import config
import entries
from host_tests.docs.pages import CHECKOUT, blocks
from host_tests.docs.reader import ReplyingBroker, run_program
from host_tests.tools.command import inflight

MONITORING = CHECKOUT / "tools/inflight_tools/fleet/monitoring"
LANGUAGES = {"python", "sh", "json", "yaml", "text"}  # text: output of a command


def test_every_block_has_a_known_language():
    unknown = [str(block) for block in blocks() if block.language not in LANGUAGES]
    assert not unknown


# What one of the runtimes lacks: a block that uses it is for the other one.
_LACKS = {"micropython-x64": ("import threading", "asyncio.to_thread"), "cpython": ("import micropython",)}


def _runs():
    """Each block on the first runtime that has all of it, and with INFLIGHT_TOOLS=1 on the other, too."""
    for block in blocks("python"):
        if block.page.name not in ("tables.md", "CONTRIBUTING.md"):  # other tests run these
            able = [name for name, lacks in _LACKS.items() if not any(word in block.text for word in lacks)]
            for name in able:
                marks = pytest.mark.long("INFLIGHT_TOOLS") if name != able[0] else ()
                yield pytest.param(block, name, id=f"{block}-{name}", marks=marks)


@pytest.mark.parametrize("block, runtime", [*_runs()], indirect=["runtime"])
def test_python_runs(block, runtime, tmp_path, certificate):
    (tmp_path / "ca.der").write_bytes(certificate)
    with ReplyingBroker() as broker:
        printed, status = run_program(runtime, tmp_path, broker, block.text)
    assert status in (None, 0, 75), printed  # 75: deep sleep of the unix board
    assert broker.arrived or not broker.sessions or "publish(" not in block.text, "its message did not arrive"


MAKEFILE = (CHECKOUT / "Makefile").read_text()
TARGETS = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.M))
RECIPES = dict(re.findall(r"^([a-z0-9-]+):.*\n((?:\t.*\n)+)", MAKEFILE, re.M))


def test_targets_that_texts_name_exist():
    command = ["git", "grep", "-IhoE", "`make [a-z][a-z0-9-]*"]
    found = subprocess.run(command, cwd=CHECKOUT, capture_output=True, text=True, check=True).stdout.splitlines()
    named = {text.removeprefix("`make ") for text in found}
    assert len(named) > 10 and named <= TARGETS


def _check_make(words):
    for word in words:
        name, _, value = word.partition("=")
        if "=" in word:
            assert re.search(rf"\$\(({name})\)|\b{name} \?=", MAKEFILE), f"make knows no variable {name}"
        else:
            assert name in TARGETS, f"make has no target {name}"
        if name == "ARGS":
            module = re.search(r"-m ([\w.]+).*\$\(ARGS\)", RECIPES[words[0]].replace("\\\n", " "))
            assert module, f"make {words[0]} has no ARGS"
            _check_options(module[1], shlex.split(value))


@functools.cache
def _help_of(*command):
    """The output of `inflight <command> --help`."""
    done = inflight(*command, "--help")
    assert done.exit_code == 0, f"inflight has no command {' '.join(command)}"
    return done.stdout


def _check_inflight(words):
    options = [word.split("=")[0] for word in words if word.startswith("--")]
    first = next((k for k, word in enumerate(words) if word.startswith("--")), len(words))
    known = re.findall(r"--[a-z-]+", _help_of(*words[: min(first, 2)]))  # `inflight <group> <command>`
    assert set(options) <= set(known), f"inflight {' '.join(words)}: there are {known}"


@functools.cache
def _options_of(module):
    """The long options of `python -m module`."""
    command = [sys.executable, "-m", module, "--help"]
    env = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1"}
    printed = subprocess.run(command, cwd=CHECKOUT, env=env, capture_output=True, text=True, check=True).stdout
    return set(re.findall(r"--[a-z-]+", printed))


def _check_options(module, words):
    options = {word.split("=")[0] for word in words if word.startswith("--")}
    assert not options or options <= _options_of(module), f"{module} {' '.join(words)}"


def _check_python(words):
    if words[:1] == ["-m"] and words[1] != "pytest":
        _check_options(words[1], words[2:])
        found = importlib.util.find_spec(words[1])
        if found and found.submodule_search_locations:  # of a package Python runs this module
            found = importlib.util.find_spec(f"{words[1]}.__main__")
        assert found, f"there is no module {words[1]}"
    for word in words:
        if "/" in word and not word.startswith("-"):
            assert (CHECKOUT / word.split("::")[0]).exists(), f"there is no {word}"


def _check_mpremote(words):
    """Files are there, but for those on the board, what commands make, and the reader's own program."""
    for path in [word for word in words if word.endswith((".py", ".json"))]:
        if not path.startswith((":", "build/")) and path != "main.py":
            assert list(CHECKOUT.glob(path)), f"there is no {path}"


CHECKS = {
    "make": _check_make,
    "inflight": _check_inflight,
    "mpremote": _check_mpremote,
    ".venv/bin/python": _check_python,
    "python3": _check_python,
    "pipx": lambda words: None,
    "pip": lambda words: None,
    "git": lambda words: None,
    ".": lambda words: None,
    **dict.fromkeys(
        "cd sudo hostname mosquitto_pub mosquitto_sub mosquitto_passwd ssh-keygen sha256sum tar".split(),
        lambda words: None,
    ),
}


@pytest.mark.parametrize("block", blocks("sh"), ids=str)
def test_commands_exist(block):
    for line in block.text.replace("\\\n", " ").splitlines():
        words = shlex.split(line, comments=True)
        if "|" in words:
            words = words[words.index("|") + 1 :]
        while words and re.fullmatch(r"[A-Z_]+=.*", words[0]):  # a variable of the environment
            words = words[1:]
        if words:
            assert words[0] in CHECKS, f"unknown command: {line}"
            CHECKS[words[0]](words[1:])


@pytest.mark.parametrize("block", blocks("json"), ids=str)
def test_configurations_are_valid(block):
    """With a key in place of the dots."""
    given = json.loads(block.text.replace('"wifi_key": "..."', '"wifi_key": "the-wifi-key"'))
    entries.check(config.check(given, "device"), lambda *pin: None)


@pytest.mark.parametrize("block", [one for one in blocks("yaml") if "alert:" not in one.text], ids=str)
def test_yaml_is_a_configuration_of_prometheus(block):
    found = yaml.safe_load(block.text)
    assert all((MONITORING / name).is_file() for name in found["rule_files"])
    jobs = {job["job_name"] for job in found["scrape_configs"]}
    assert jobs == {"inflight-collector", "inflight-tables", "inflight-fleet"}

"""Issue forms, the pull request template and the workflow: they are valid, and what they name exists."""

import os
import re
import shlex

import pytest
import yaml

from host_tests.docs.pages import CHECKOUT
from host_tests.docs.test_code import CHECKS

FOLDER = CHECKOUT / ".github"
FORMS = sorted(path for path in FOLDER.glob("ISSUE_TEMPLATE/*.yml") if path.name != "config.yml")
TEXTS = [*FORMS, FOLDER / "pull_request_template.md"]
WORKFLOWS = sorted(FOLDER.glob("workflows/*.yml"))
_OF_A_USER = ("config.json",)


@pytest.mark.parametrize("path", sorted(FOLDER.rglob("*.yml")), ids=lambda path: path.stem)
def test_it_is_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.stem)
def test_commands_and_files_that_a_text_names_exist(path):
    for text in re.findall(r"`([^`]+)`", path.read_text()):
        command, *words = shlex.split(text)
        if command in CHECKS:
            CHECKS[command](words)
        elif re.fullmatch(r"[\w./]+\.\w+", text) and text not in _OF_A_USER:
            assert (CHECKOUT / text).is_file(), text


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_what_a_workflow_runs_exists(path):
    steps = [step for job in yaml.safe_load(path.read_text())["jobs"].values() for step in job["steps"]]
    for command in [step["run"] for step in steps if "run" in step]:
        assert os.access(CHECKOUT / command, os.X_OK), command
    for name in [step["uses"] for step in steps if "uses" in step]:
        assert re.fullmatch(r"actions/[\w-]+@v\d+", name), name
    for pattern in re.findall(r"hashFiles\((.*?)\)", path.read_text()):
        for place in re.findall(r"'(.*?)'", pattern):
            assert list(CHECKOUT.glob(place)), place

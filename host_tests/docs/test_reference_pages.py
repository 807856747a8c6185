"""Pages that are made say what their source says."""

import inspect
import re
import shlex

import pytest

from host_tests.docs.test_code import CHECKS
from inflight.client.base import Base
from inflight.client.options import Options
from tools import reference_pages, results


@pytest.mark.parametrize("name", reference_pages.PAGES)
def test_a_page_is_what_the_code_says(name):
    """Each field of the configuration has a comment, which says what it means."""
    text = (reference_pages.FOLDER / name).read_text("utf-8")
    assert text == reference_pages.PAGES[name](), "run .venv/bin/python -m tools.reference_pages"


def test_every_argument_of_a_client_is_explained():
    """In this order; host is in the first line."""
    rows = inspect.cleandoc(Base.__doc__).split("\n\n")[1]
    explained = re.findall(r"^(\w+)(?:, (\w+))?", rows, re.M)
    arguments = [*inspect.signature(Options.configure).parameters][2:-1]  # but self, and those that it refuses
    assert [name for pair in explained for name in pair if name] == arguments


def test_the_page_of_results_is_what_its_source_says():
    assert results.PAGE.read_text() == results.page(), "run .venv/bin/python -m tools.results"


@pytest.mark.long("INFLIGHT_TOOLS")
@pytest.mark.parametrize("command", sorted({run["command"] for run in results.runs()}))
def test_the_command_of_a_result_exists(command):
    words = shlex.split(command)
    while re.fullmatch(r"[A-Z_0-9]+=\S*", words[0]):  # a variable of the environment
        del words[0]
    CHECKS[words[0]](words[1:])

"""How large the project is: lines of Python, which may only fall. A new capability may raise a ceiling of the product,
with its reason in the commit."""

import subprocess

import pytest

from tools.setup.common import CHECKOUT

# The present figures, rounded up. Lower them with what you remove.
CEILINGS = {
    "product": 42_668,  # lib, boards, firmware, the command `inflight`
    "maintainers": 17_621,  # other tools
    "all": 119_791,
}
TESTS_FOR_A_LINE = 1.39  # lines of tests for each line of the product
SLACK = 500  # a ceiling that is further above its figure is to be lowered


@pytest.fixture(scope="module")
def lines():
    names = subprocess.run(["git", "ls-files", "-z", "*.py"], cwd=CHECKOUT, check=True, capture_output=True, text=True)
    found = dict.fromkeys(("product", "maintainers", "tests", "all"), 0)
    for name in filter(None, names.stdout.split("\0")):
        if name.startswith(("lib/", "boards/", "firmware/", "tools/inflight_tools/")):
            part = "product"
        else:
            part = {"host_tests": "tests", "tools": "maintainers"}.get(name.split("/")[0])
        path = CHECKOUT / name
        n = len(path.read_text().splitlines()) if path.exists() else 0
        found["all"] += n
        if part:
            found[part] += n
    return found


@pytest.mark.parametrize("part", CEILINGS)
def test_does_not_grow(lines, part):
    assert lines[part] <= CEILINGS[part], f"{part}: remove lines, or raise the ceiling and say why"
    assert lines[part] > CEILINGS[part] - SLACK, f"{part}: lower the ceiling to {lines[part]}"


def test_tests_do_not_outgrow_the_product(lines):
    assert lines["tests"] <= TESTS_FOR_A_LINE * lines["product"]

"""Kept mutants fit the tree; with INFLIGHT_TOOLS=1 a fixed tenth of them is seen by a test that each names; what
`make mutants` does with a mutant that no test sees, with a tree that is not committed, and with names that there are
not."""

import subprocess
import textwrap

import pytest
import typer

from tools.mutants import __main__ as mutants
from tools.mutants import catalog
from tools.mutants.tree import Tree
from tools.setup.common import CHECKOUT

KEPT = catalog.read()
A_TENTH = [mutant for mutant in KEPT if mutant.part != "spark"][::10]  # a start of Spark takes as long as all of these


def test_each_applies():
    stale = []
    for mutant in KEPT:
        try:
            mutant.apply(CHECKOUT)
        except catalog.Stale as error:
            stale.append(str(error))
        for test in mutant.tests:
            file, _, name = test.partition("::")
            path = CHECKOUT / file
            if not path.is_file() or f"def {name.partition('[')[0]}" not in path.read_text():
                stale.append(f"{mutant.name}: there is no {test}")
    assert not stale


@pytest.fixture(scope="session")
def tree(tmp_path_factory):
    return Tree(CHECKOUT, tmp_path_factory.mktemp("mutants") / "tree")


@pytest.mark.long("INFLIGHT_TOOLS")  # each is a run of pytest
@pytest.mark.parametrize("mutant", A_TENTH, ids=lambda mutant: mutant.name)
def test_a_tenth_is_seen(tree, mutant):
    assert tree.seen_by(mutant, mutant.tests).failed


@pytest.fixture
def project(tmp_path):
    """A checkout with a module, and a test that sees one of its two promises."""
    root = tmp_path / "project"
    (root / "host_tests").mkdir(parents=True)
    (root / "part.py").write_text("def tripled(n):\n    return n * 3\n\n\ndef halved(n):\n    return n // 2\n")
    (root / "host_tests/test_part.py").write_text(
        textwrap.dedent("""
            import sys
            sys.path.insert(0, ".")
            import part
            def test_tripled():
                assert part.tripled(2) == 6
        """)
    )
    for words in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "1"]):
        subprocess.run(["git", "-C", root, *words], check=True)
    return root


def mutant(before="n * 3", after="n * 4", tests=("host_tests/test_part.py::test_tripled",)):
    return catalog.Mutant("changed", "part.py", before, after, "numbers are right", tests, "part")


def judged(root, *kept, files=("host_tests/test_part.py",)):
    return mutants.judge_all(root, list(kept), list(files), 1, lambda row: None)


def test_tells_the_test_that_sees_it_or_that_none_does(project):
    halved = mutant("n // 2", "n")
    assert [row[1] for row in judged(project, mutant(), halved)] == ["host_tests/test_part.py::test_tripled", ""]


def test_changes_that_are_not_committed_are_tested_and_left_alone(project):
    changed = (project / "part.py").read_text().replace("n * 3", "3 * n")
    (project / "part.py").write_text(changed)
    ((_, test, _, complaints),) = judged(project, mutant("3 * n", "4 * n"))
    assert test and not complaints
    assert (project / "part.py").read_text() == changed


@pytest.mark.parametrize(
    "kept, said",
    [
        (mutant("n * 5"), "stands 0 times in part.py"),
        (mutant(tests=("host_tests/test_part.py::test_other",)), "names a test that there is not"),
    ],
    ids=["text", "test"],
)
def test_what_does_not_fit_any_more_is_told(project, kept, said):
    ((_, _, _, complaints),) = judged(project, kept)
    assert said in complaints[0]


def test_a_test_that_fails_by_itself_sees_nothing(project):
    with (project / "host_tests/test_part.py").open("a") as file:
        file.write("    assert False\n")
    ((_, test, _, complaints),) = judged(project, mutant())
    assert not test and "fails without a mutant, too" in complaints[0]


@pytest.mark.parametrize("ask", [lambda: mutants.chosen(KEPT, ["dup"]), lambda: mutants.test_files(CHECKOUT, ["dup"])])
def test_an_unknown_name_is_a_usage_error_with_the_valid_ones(ask):
    with pytest.raises(typer.BadParameter, match="nearest|host_tests/lib"):
        ask()

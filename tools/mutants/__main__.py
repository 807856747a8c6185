"""Which test sees which broken promise: applies each kept mutant (catalog.py) to a copy of the tree, and runs tests.

`python -m tools.mutants` shows for each mutant the first test file that sees it. Exit status 1 if none does, if a
mutant does not apply any more, or if a test that it names is missing or fails without it, too. `--files host_tests/lib`
asks only these files and folders; names choose mutants. The tests that a mutant names are tried first."""

import queue
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from difflib import get_close_matches
from pathlib import Path

import typer
from rich.console import Console

from tools.mutants import catalog
from tools.mutants.tree import Tree
from tools.setup.common import CHECKOUT
from tools.shown import table


def chosen(mutants, names):
    """The mutants of these names, all without any. BadParameter for an unknown one."""
    known = {mutant.name: mutant for mutant in mutants}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 3, 0) or sorted(known)
            raise typer.BadParameter(f"no mutant is called {name!r}; the nearest: {', '.join(near)}")
    return [known[name] for name in names] or mutants


def test_files(root, places):
    """Test files of the tree `root`, as posix paths, below these files and folders. BadParameter for one without."""
    found = []
    for place in places or ["host_tests"]:
        path = root / place
        files = [path] if path.is_file() else sorted(path.rglob("test_*.py"))
        if not files:
            folders = sorted({one.parent.relative_to(root).as_posix() for one in root.glob("host_tests/**/test_*.py")})
            raise typer.BadParameter(f"no test file is in {place!r}; there are {', '.join(folders)}")
        found += [file.relative_to(root).as_posix() for file in files]
    return found


def judge(tree, mutant, files):
    """(test that sees the mutant or "", [complaint]): the tests that it names come first, then the files of its part of
    the tree, then all others."""
    complaints = []
    if named := [test for test in mutant.tests if test.split("::")[0] in files]:
        result = tree.seen_by(mutant, named)
        if result.missing:
            complaints.append(f"{mutant.name} names a test that there is not: {' '.join(named)}")
        elif result.failed:
            return result.failed, complaints
    rest = [file for file in files if file not in mutant.tests]
    words = set(Path(mutant.file).with_suffix("").parts)
    rest.sort(key=lambda file: -len(words.intersection(Path(file).parts)))
    result = tree.seen_by(mutant, rest, None) if rest else None
    return result.failed if result else "", complaints


def judge_all(root, mutants, files, jobs, tell):
    """[(mutant, test, seconds, [complaint])] of all; tell(row) as each comes."""
    rows = []
    with ExitStack() as open_, ThreadPoolExecutor(jobs) as pool:
        free, trees = queue.SimpleQueue(), []
        for number in range(jobs):
            folder = open_.enter_context(tempfile.TemporaryDirectory(prefix="inflight-mutants-"))
            trees.append(Tree(root, f"{folder}/tree{number}"))
            free.put(trees[-1])

        def one(mutant):
            tree, start = free.get(), time.monotonic()
            try:
                test, complaints = judge(tree, mutant, files)
            except (catalog.Stale, ValueError, RuntimeError) as error:
                test, complaints = "", [str(error)]
            finally:
                free.put(tree)
            rows.append((mutant, test, time.monotonic() - start, complaints))
            tell(rows[-1])

        try:
            for done in [pool.submit(one, mutant) for mutant in mutants]:
                done.result()
        except BaseException:  # Ctrl-C, too: tests that run are ended, the copies deleted
            pool.shutdown(wait=False, cancel_futures=True)
            for tree in trees:
                tree.stop()
            raise
    return rows


def main(
    names: list[str] = typer.Argument(None, help="mutants; without names all of them"),
    files: str = typer.Option("", help="test files and folders, with spaces between them; without it all"),
    jobs: int = typer.Option(2, min=1, help="how many run at once"),
):
    mutants = chosen(catalog.read(), names or [])
    asked = test_files(CHECKOUT, files.split())
    console = Console(width=None if sys.stdout.isatty() else 160)

    def tell(row):
        mutant, test, seconds, _ = row
        console.print(f"{seconds:6.1f} s  {mutant.name}: {test or 'NOT SEEN'}", markup=False, highlight=False)

    rows = judge_all(CHECKOUT, mutants, asked, jobs, tell)
    rows.sort(key=lambda row: mutants.index(row[0]))
    shown = [("promise that is broken", "mutant", "first file that sees it", "s")]
    for mutant, test, seconds, _ in rows:
        shown.append((mutant.promise, mutant.name, test.split("::")[0] or "NOT SEEN", f"{seconds:.0f}"))
    console.print(table("Mutants", shown))
    complaints = [text for row in rows for text in row[3]]
    for text in complaints:
        console.print(text, style="red", markup=False, highlight=False)
    unseen = sum(not test for _, test, _, _ in rows)
    console.print(f"{len(rows) - unseen} seen, {unseen} not seen")
    raise typer.Exit(1 if unseen or complaints else 0)


if __name__ == "__main__":
    typer.run(main)

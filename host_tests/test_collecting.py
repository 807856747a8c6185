"""Which tests run where: what test files say of themselves, and what pytest makes of it."""

import os
import re
import subprocess
import sys

import pytest

from host_tests.conftest import DEVICE, runtimes_of, worker_of
from tools.runtimes import DEVICE_NAMES
from tools.setup.common import CHECKOUT


def collected(*args, **variables):
    """{runtime: number of tests} that pytest collects with these variables in the environment."""
    # As here, but for what is given: runtimes_of() follows INFLIGHT_TOOLS.
    kept = [name for name in os.environ if name == "INFLIGHT_TOOLS" or not name.startswith("INFLIGHT_")]
    unset = {name: os.environ[name] for name in kept}
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--collect-only", *args]
    done = subprocess.run(command, cwd=CHECKOUT, env=unset | variables, capture_output=True, text=True)
    names = re.findall(r"::test_\w+\[([\w-]+)\]$", done.stdout, re.M)
    return {name: names.count(name) for name in set(names)}


def test_each_file_runs_on_both_families_of_interpreters():
    files = {file.name: runtimes_of(file) for file in DEVICE.rglob("test_*.py")}
    assert [name for name, own in files.items() if len({one.partition("-")[0] for one in own}) < 2] == []


def test_a_file_runs_where_it_says():
    """The other runtimes are for `make test-everywhere`: together each test runs once on each."""
    file = DEVICE / "lib/test_journal_alloc.py"
    usual = collected(file)
    others = collected("-m", "long", file, INFLIGHT_EVERYWHERE="1")
    everywhere = collected(file, INFLIGHT_EVERYWHERE="1")
    assert usual.keys() == set(runtimes_of(file))
    assert others.keys() == set(DEVICE_NAMES) - {"micropython-own"} - usual.keys()
    assert usual | others == everywhere


def test_with_the_tests_of_maintainers_tools_a_file_runs_on_more(tmp_path, monkeypatch):
    for asked, names in ("", ["cpython"]), ("1", ["cpython", "micropython-x64"]):
        monkeypatch.setenv("INFLIGHT_TOOLS", asked)
        file = tmp_path / f"test_made{asked}.py"
        file.write_text('RUNTIMES = "cpython"\nMORE_RUNTIMES = "micropython-x64"\n')
        assert runtimes_of(file) == names


@pytest.mark.parametrize("names", ["cpython micropython-z80", ""])
def test_runtimes_that_do_not_exist_are_refused(tmp_path, names):
    file = tmp_path / "test_made.py"
    file.write_text(f'RUNTIMES = "{names}"\n')
    with pytest.raises(pytest.UsageError, match=f"RUNTIMES names {'micropython-z80' if names else 'nothing'}"):
        runtimes_of(file)


def test_files_share_a_worker_by_a_line_of_their_own_or_of_their_folder(tmp_path):
    """One that makes something for all its tests has one for itself."""
    names = ("own/test_a.py", "beside/test_b.py", "test_c.py", "test_d.py")
    own, beside, alone, once = (tmp_path / name for name in names)
    fixture = '@pytest.fixture(scope="module")\n'
    for file, line in ((own, 'WORKER = "slow"\n'), (beside, fixture), (alone, ""), (once, fixture)):
        file.parent.mkdir(exist_ok=True)
        file.write_text(f'"""Made."""\n{line}')
    beside.with_name("conftest.py").write_text('WORKER = "slow"\n')
    assert [worker_of(file) for file in (own, beside, alone, once)] == ["slow", "slow", "", str(once)]

"""Skips tests of what is not there: an interpreter; or test files that cannot be imported because a dependency is
missing."""

import pytest

from tools.runtimes import runtime


def interpreter(name):
    """The Runtime of this name; the test is skipped if there is none."""
    found = runtime(name)
    if found.reason:
        pytest.skip(f"{name} is unavailable: {found.reason}")
    return found


class _Absent(pytest.Module):
    reason = None

    def collect(self):
        pytest.skip(self.reason, allow_module_level=True)


def absent(parent, path, reason):
    """The result for a conftest's pytest_pycollect_makemodule(): None if there is no reason to skip."""
    if not reason:
        return None
    module = _Absent.from_parent(parent, path=path)
    module.reason = reason
    return module

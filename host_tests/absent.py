"""Files of tests that cannot even be imported here, because what they need is missing."""

import pytest


class _Absent(pytest.Module):
    reason = None

    def collect(self):
        pytest.skip(self.reason, allow_module_level=True)


def absent(parent, path, reason):
    """What a conftest's pytest_pycollect_makemodule() is to return: None as long as there is no reason."""
    if not reason:
        return None
    module = _Absent.from_parent(parent, path=path)
    module.reason = reason
    return module

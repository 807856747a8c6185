"""What `inflight fleet tables` says while its query runs. The query is a stand-in."""

import threading
from types import SimpleNamespace

import pytest

from inflight_tools.fleet import commands


@pytest.mark.parametrize("stuck", [0, 3])
def test_landing_files_that_stay_unread_are_an_alarm(capsys, stuck):
    query = SimpleNamespace(isActive=False, recentProgress=[], exception=lambda: None)
    commands.follow(query, SimpleNamespace(stuck=lambda: stuck), threading.Event(), False)
    assert ("ALARM: 3 landing files stay unread" in capsys.readouterr().err) == bool(stuck)

"""The dashboard, checked against the types of Grafana's own package: `make test-dashboard`."""

import json
import subprocess
from pathlib import Path

import pytest

from inflight_tools.fleet import monitoring
from tools.setup import grafana

DASHBOARD = Path(monitoring.__file__).parent / "dashboard.json"
pytestmark = pytest.mark.long("INFLIGHT_GRAFANA")


def check(*files):
    done = subprocess.run([*grafana.command(), *map(str, files)], capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout + done.stderr


def test_the_dashboard_fits_the_schema():
    assert check(DASHBOARD) == (0, "")


@pytest.mark.parametrize("change", [{"titel": "typo"}, {"refresh": 30}, {"panels": [{"title": "without a type"}]}])
def test_a_field_that_does_not_fit_is_found(tmp_path, change):
    (tmp_path / "wrong.json").write_text(json.dumps(json.loads(DASHBOARD.read_text()) | change))
    status, text = check(tmp_path / "wrong.json")
    assert status != 0 and "error TS" in text

"""Whatever landing files hold, Spark counts what an independent reader does, and `compact` changes no figure."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from host_tests.thorough import PIPELINE
from host_tests.tools.fleet.query.test_hostile_tables import BATCHES, FEW, LARGE, land, look

from .with_spark import Fleet


@pytest.mark.long("INFLIGHT_TOOLS")
@settings(FEW, max_examples=30 if PIPELINE else 1)
@given(BATCHES)
@example(LARGE)
def test_compact_changes_no_figure(spark, batches):
    with tempfile.TemporaryDirectory() as name:
        fleet = Fleet(spark, Path(name))
        total, devices, known = land(fleet, batches)
        assert fleet.count("raw") == total["deliveries"]
        before = look(Path(name), total, devices, known)
        assert fleet.tables.merge() > 0
        fleet.tables.vacuum(0)
        assert look(Path(name), total, devices, known) == before
        assert fleet.tables.merge() == 0 and fleet.facts()["differences"] == []

"""Spark properties, and options of Java."""

import pytest

from inflight_tools.fleet.spark import session


def test_options_keep_their_names(spark):
    assert spark.conf.get("spark.executorEnv.OF_TESTS") == "1"


@pytest.mark.parametrize("name", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS"])
def test_java_gets_no_second_garbage_collector(monkeypatch, name):
    """It would not start."""
    monkeypatch.setenv("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1")
    assert session._garbage_collector() == "-XX:+UseParallelGC"
    monkeypatch.setenv(name, "-Xmx1g -XX:+UseSerialGC")
    assert session._garbage_collector() == ""

"""Which Java Spark uses."""

import subprocess

import pytest

from inflight_tools.fleet.spark import java as java_of_spark


@pytest.fixture
def java(tmp_path, monkeypatch):
    """java(name, version) makes a fake Java of this version, and returns its home. The packaged one is absent."""
    packaged = tmp_path / "packaged"
    monkeypatch.setattr(java_of_spark, "packaged", lambda: packaged if packaged.exists() else None)

    def make(name, version):
        program = tmp_path / name / "bin/java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
        program.chmod(0o755)
        return tmp_path / name

    return make


def test_java_home_then_path_then_package(java):
    named, found = java("named", "21.0.1"), java("found", "17.0.15")
    assert java_of_spark.java_home({"JAVA_HOME": str(named), "PATH": str(found / "bin")}) == named
    assert java_of_spark.java_home({"PATH": str(found / "bin")}) == found
    assert java_of_spark.java_home({"PATH": ""}) is None
    packaged = java("packaged", "25")
    assert java_of_spark.java_home({"PATH": ""}) == packaged


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "nonsense"])
def test_an_old_java_is_ignored(java, version):
    old, good = java("old", version), java("good", "17")
    assert java_of_spark.java_home({"JAVA_HOME": str(old), "PATH": str(good / "bin")}) == good
    assert java_of_spark.java_home({"JAVA_HOME": str(old), "PATH": ""}) is None


def test_the_starter_of_the_packaged_java_drops_the_missing_module(tmp_path):
    starter = tmp_path / "java"
    starter.write_text(java_of_spark._STARTER.format(java="printf '<%s>'"))
    words = ["--add-modules=jdk.incubator.vector", "-cp", "a b:c", "--add-modules=jdk.incubator.vector", "Main", ""]
    assert subprocess.check_output(["bash", starter, *words], text=True) == "<-cp><a b:c><Main><>"

"""Which Java Spark gets."""

import subprocess

import pytest

from inflight_tools.fleet.spark import java as java_of_spark


@pytest.fixture
def java(tmp_path, monkeypatch):
    """java(name, version) makes a Java that says so, and returns its home; the packaged one is not there."""
    packaged = tmp_path / "packaged"
    monkeypatch.setattr(java_of_spark, "packaged", lambda: packaged if packaged.exists() else None)

    def make(name, version):
        program = tmp_path / name / "bin/java"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
        program.chmod(0o755)
        return tmp_path / name

    return make


def test_java_is_the_named_one_or_that_of_the_path_or_the_packaged_one(java):
    named, found = java("named", "21.0.1"), java("found", "17.0.15")
    assert java_of_spark.java_home({"JAVA_HOME": str(named), "PATH": str(found / "bin")}) == named
    assert java_of_spark.java_home({"PATH": str(found / "bin")}) == found
    assert java_of_spark.java_home({"PATH": ""}) is None
    packaged = java("packaged", "25")
    assert java_of_spark.java_home({"PATH": ""}) == packaged


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "nonsense"])
def test_a_java_that_is_too_old_is_passed_over(java, version):
    old, good = java("old", version), java("good", "17")
    assert java_of_spark.java_home({"JAVA_HOME": str(old), "PATH": str(good / "bin")}) == good
    assert java_of_spark.java_home({"JAVA_HOME": str(old), "PATH": ""}) is None


def test_what_starts_the_packaged_java_leaves_out_the_module_that_it_lacks(tmp_path):
    starter = tmp_path / "java"
    starter.write_text(java_of_spark._STARTER.format(java="printf '<%s>'"))
    words = ["--add-modules=jdk.incubator.vector", "-cp", "a b:c", "--add-modules=jdk.incubator.vector", "Main", ""]
    assert subprocess.check_output(["bash", starter, *words], text=True) == "<-cp><a b:c><Main><>"

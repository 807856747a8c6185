"""Spark for the pipeline, and Java if the system has none."""

import subprocess
import sys
from pathlib import Path

from inflight_tools.fleet.spark.java import OLDEST_JAVA, java_home

from . import environment
from .common import SetupError, say

LOCKS = Path(__file__).parent
_PROBE = "import sys; from inflight_tools.fleet.spark.java import java_home; sys.exit(not java_home())"


def ensure(_installer):
    """Returns True if there was something to do."""
    if sys.version_info < (3, 11):  # everything else works
        say(f"no Spark, and so no pipeline: it needs Python 3.11 or newer, this is {sys.version.split()[0]}")
        return False
    made = environment.add(LOCKS / "fleet.lock")
    if java_home():
        return made
    made = environment.add(LOCKS / "java.lock") or made
    if subprocess.run([environment.VENV / "bin/python", "-c", _PROBE]).returncode:
        raise SetupError(f"there is no Java {OLDEST_JAVA} or newer, and the packaged one does not start: install one")
    return made

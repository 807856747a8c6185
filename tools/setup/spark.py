"""Spark for the pipeline, and Java if the system has none."""

import subprocess
import sys
from pathlib import Path

from inflight_tools.fleet.spark.java import OLDEST_JAVA, java_home
from tools.setup import environment
from tools.setup.common import SetupError, say

LOCKS = Path(__file__).parent
_PYTHON = environment.VENV / "bin/python"
_PROBE = "import sys; from inflight_tools.fleet.spark.java import java_home; sys.exit(not java_home())"


def ensure(_installer):
    if sys.version_info < (3, 11):  # everything else works
        say(f"no Spark, and so no pipeline: it needs Python 3.11 or newer, this is {sys.version.split()[0]}")
        return False
    made = environment.add(LOCKS / "fleet.lock")
    if not java_home():
        made = environment.add(LOCKS / "java.lock") or made
        if subprocess.run([_PYTHON, "-c", _PROBE]).returncode:
            problem = f"there is no Java {OLDEST_JAVA} or newer, and the packaged one does not start"
            raise SetupError(f"{problem}: install one")
    if made:
        # Without the archive of classes all works, and starts slowly.
        done = subprocess.run([_PYTHON, "-m", "inflight_tools.fleet.spark.classes"], capture_output=True, text=True)
        if done.returncode:
            say(f"Spark will start slowly: {done.stderr.strip().rpartition(chr(10))[2]}")
    return made

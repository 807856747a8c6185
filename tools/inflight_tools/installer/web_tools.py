"""esp-web-tools: the elements of a page that write to a board over Web Serial. npm fetches the pinned package."""

import hashlib
import shutil
import subprocess
import tarfile
from pathlib import PurePosixPath

from inflight_tools.cache import cache_dir

_PACKAGE = "esp-web-tools@10.4.0"
_FILE = "esp-web-tools-10.4.0.tgz"
_SHA256 = "f18da75335d2f0dca044c4bb052848c0696e7b03cc23d61d8530dd6eba0a9008"
_BUNDLE = PurePosixPath("package/dist/web")  # with all that it needs
_LICENCE = PurePosixPath("package/LICENSE")
_ADVICE = f"fetch {_FILE} elsewhere and name it with --web-tools"


def cached():
    """Where the package is, or will be."""
    return cache_dir() / "web" / _FILE


def web_tools(named=None):
    """{file name: content} of the bundle and its licence: from the file `named`, from the cache, or fetched into it.
    ValueError with one line."""
    path = named or cached()
    if not path.exists() and not named:
        _fetch(path.parent)
    if hashlib.sha256(path.read_bytes()).hexdigest() != _SHA256:
        raise ValueError(f"{path}: it is not the pinned {_FILE}: {'' if named else 'remove it, or '}{_ADVICE}")
    with tarfile.open(path) as package:
        members = {PurePosixPath(member.name): member for member in package.getmembers() if member.isfile()}
        wanted = [name for name in members if name == _LICENCE or name.parent == _BUNDLE]
        return {name.name: package.extractfile(members[name]).read() for name in wanted}


def _fetch(folder):
    npm = shutil.which("npm")
    if not npm:
        raise ValueError(f"npm fetches {_PACKAGE}, and is not installed: install Node.js, or {_ADVICE}")
    folder.mkdir(parents=True, exist_ok=True)
    done = subprocess.run([npm, "pack", _PACKAGE], cwd=folder, capture_output=True, text=True)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise ValueError(f"npm could not fetch {_PACKAGE}: {lines[0]}: {_ADVICE}")

"""The virtual environment in .venv, with pinned versions and hashes. Works without pip, too. add() installs optional
packages, which have locks of their own."""

import ast
import importlib.util
import os
import platform
import re
import shutil
import sys

from inflight_tools.cache import cache_dir, write_atomic
from tools.setup.common import CHECKOUT, SetupError, digest, run, say
from tools.setup.programs import Installer

VENV = CHECKOUT / ".venv"
REQUIREMENTS = CHECKOUT / "requirements.lock"
PROJECT = CHECKOUT / "pyproject.toml"


def base_python():
    """The base interpreter, even if the set-up runs in a virtual environment."""
    return getattr(sys, "_base_executable", None) or sys.executable


def key(requirements):
    """What an environment depends on. The interpreter by its real path: a virtual environment may name another link."""
    return digest(requirements, platform.python_version(), os.path.realpath(base_python()), str(VENV))


def _stamp(venv, requirements):
    return venv / ("inflight.stamp" if requirements == REQUIREMENTS else f"{requirements.stem}.stamp")


def ready(venv=VENV, requirements=REQUIREMENTS):
    stamp = _stamp(venv, requirements)
    return stamp.is_file() and stamp.read_text() == key(requirements) and (venv / "bin/python").exists()


def add_pip(python):
    """Installs pip from Debian's package with its wheel, since Debian's Python may lack ensurepip."""
    folder = Installer().folders("python3-pip-whl", "all")[0]
    wheel = next(folder.glob("usr/share/python-wheels/pip-*.whl"), None)
    if not wheel:
        raise SetupError(f"no pip wheel in {folder}")
    run([python, wheel / "pip", "install", "--no-index", "--no-deps", "-q", wheel], "pip cannot install itself")


def ensure(venv=VENV, requirements=REQUIREMENTS):
    """Makes the environment if it is missing. The stamp is written last, so an incomplete one is made again."""
    if ready(venv, requirements):
        return False
    if venv.exists():
        shutil.rmtree(venv)
    bare = importlib.util.find_spec("ensurepip") is None
    say(f"making {venv.name} with Python {platform.python_version()}" + (" (it has no pip of its own)" if bare else ""))
    run([base_python(), "-m", "venv", *(["--without-pip"] if bare else []), venv], "cannot make a virtual environment")
    python = venv / "bin/python"
    if bare:
        add_pip(python)
    return add(requirements, venv)


class Apart:
    """An environment in the folder `name` of the cache, for packages that need other versions than ours do. advice:
    where there is none."""

    def __init__(self, name, lock, advice=""):
        self._name, self._lock, self._advice = name, lock, advice

    @property
    def folder(self):
        return cache_dir() / self._name / key(self._lock)

    def unavailable(self):
        """Why there is none here; empty if there is one."""
        return "" if ready(self.folder, self._lock) else self._advice

    def program(self, name):
        return self.folder / "bin" / name

    def ensure(self, _installer=None):
        return ensure(self.folder, self._lock)


def add(requirements, venv=VENV):
    """Installs the packages of a lock into the environment, unless they are installed."""
    if ready(venv, requirements):
        return False
    say(f"installing the packages of {requirements.name}")
    _install(venv, "--require-hashes", "-r", requirements)
    _stamp(venv, requirements).write_text(key(requirements))
    return True


def _install(venv, *what):
    pip = [venv / "bin/python", "-m", "pip", "--disable-pip-version-check", "install", "-q", "--no-deps"]
    run([*pip, *what], "pip")


def folders():
    """The folders of the checkout on the import path: the same as pytest's."""
    found = re.search(r"^pythonpath = (\[.*?\])", PROJECT.read_text(), re.M | re.S)
    return [(CHECKOUT / name).resolve() for name in ast.literal_eval(found[1])]


def link(venv=VENV):
    """Installs the checkout and the command `inflight` into the environment. Returns True if it was not yet there."""
    stamp = venv / "checkout.stamp"
    wanted = digest(PROJECT, str(CHECKOUT))
    if stamp.is_file() and stamp.read_text() == wanted:
        return False
    _install(venv, "--no-build-isolation", "--editable", CHECKOUT)
    packages = next(venv.glob("lib/python*/site-packages"))
    write_atomic(packages / "checkout.pth", "".join(f"{folder}\n" for folder in folders()))
    stamp.write_text(wanted)
    return True

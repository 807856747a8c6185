"""Installs programs of other projects: their packages, loaders and libraries, and an emulator if one is needed."""

import json
import os
import platform
import shlex
import shutil
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from inflight_tools.cache import cache_dir, write_atomic
from tools.setup import chromium, npm
from tools.setup.common import CHECKOUT, SetupError, digest, read_json, say, sweep
from tools.setup.index import SUITE, Index
from tools.setup.loader import PLATFORMS, find_file, loader_command
from tools.setup.packages import NotOnMirror, install, read_lock
from tools.setup.sources import debian_mirror

LOCK = Path(__file__).with_name("debian.lock")
ADVICE = "INFLIGHT_DEBIAN_MIRROR=<base address of a Debian mirror> gives the pinned one"
DOWNLOADS = 4  # at a time
HOSTS = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Program:
    name: str
    package: str
    architecture: str  # "host" or a Debian architecture
    probe: tuple  # arguments for a short run
    answer: str  # text in the output of that run
    required: bool = False
    system: tuple = ()  # programs of the system that can be used instead
    command: Callable | None = None  # command(installer) returns the command line; None: the usual one


_HELLO = ("-c", "print(6 * 7)")
PROGRAMS = (
    Program("micropython-x64", "micropython", "host", _HELLO, "42", required=True),
    Program("micropython-x86", "micropython", "i386", _HELLO, "42"),
    Program("micropython-armhf", "micropython", "armhf", _HELLO, "42"),
    Program("mosquitto", "mosquitto", "host", ("-h",), "mosquitto version", required=True, system=("mosquitto",)),
)


def micropython_wasm(installer):
    """The newest MicroPython: the WebAssembly port, which has no sockets."""
    return npm.command(CHECKOUT / "tools/runtimes/wasm", installer.cache / "wasm")


# Only tests need these: `make test` installs them.
TESTS = (
    Program("micropython-wasm", "micropython", "host", _HELLO, "42", command=micropython_wasm),
    Program(
        "chromium", chromium.PACKAGE, "host", ("--version",), "Chrom", system=chromium.NAMES, command=chromium.command
    ),
    Program("promtool", "promtool", "host", ("--version",), "promtool", system=("promtool",)),
)


def on_path(name):
    """The system's program `name`. Also looks into the folders of servers, which are not in a user's PATH."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


class Installer:
    """Installs packages into a cache folder, and makes command lines for their programs."""

    def __init__(self, lock=LOCK):
        self.cache = cache_dir()
        if platform.machine() not in HOSTS:
            raise SetupError(f"no MicroPython is pinned for {platform.machine()}: an x86-64 or aarch64 Linux is needed")
        self.host = HOSTS[platform.machine()]
        self.mirror = debian_mirror()
        self.lock = read_lock(lock.read_text())
        code = sorted(Path(__file__).parent.glob("*.py"))
        self.key = digest(lock, *code, self.host, str(self.mirror), platform.release())
        self.store = self.cache / "packages"
        self._indexes = {}

    def index(self, architecture):
        """The index of the Debian suite; without a Debian mirror, that of this system's archives."""
        if architecture not in self._indexes:
            source = SUITE if self.mirror else "system"
            home = self.cache / "apt" / f"{source}-{architecture}"
            self._indexes[architecture] = Index(home, self.mirror, [architecture])
        return self._indexes[architecture]

    def folders(self, program, architecture):
        """The folders of a program's packages: the pinned ones if a Debian mirror is known."""
        if not self.mirror:
            return self._folders_from_system(program, architecture)
        pinned = self.lock.get((program, architecture))
        if not pinned:
            raise SetupError(f"debian.lock pins no {program} for {architecture}")
        with ThreadPoolExecutor(DOWNLOADS) as pool:
            found = list(pool.map(self._pinned, pinned))
        return [folder or self._newer(package) for folder, package in zip(found, pinned, strict=True)]

    def _folders_from_system(self, program, architecture):
        if architecture not in (self.host, "all"):
            raise SetupError(f"apt knows no Debian mirror, and only that has {program} for {architecture}; {ADVICE}")
        say(f"no Debian mirror is configured: {program} comes from this system's own archive, not the pinned version")
        try:
            found = self.index(self.host).closure(program, self.host)
        except SetupError as error:
            raise SetupError(f"{error}; {ADVICE}", temporary=error.temporary) from None
        return [install(package, None, self.store) for package in found]

    def _pinned(self, package):
        """The package's folder; None if the mirror no longer has it."""
        try:
            return install(package, self.mirror, self.store)
        except NotOnMirror:
            return None

    def _newer(self, package):
        architecture = self.host if package.architecture == "all" else package.architecture
        newer = self.index(architecture).find(package.name, architecture)
        say(
            f"NOTE: the mirror has replaced {package.name} {package.version} (pinned) by {newer.version}; using that, "
            "since its index is signed; `python -m tools.setup.relock` renews the pins"
        )
        return install(newer, self.mirror, self.store)

    def argv(self, program):
        """The command line that starts `program`."""
        if own := next(filter(None, map(on_path, program.system)), None):
            return [own]
        if program.command:
            return program.command(self)
        architecture = self.host if program.architecture == "host" else program.architecture
        folders = self.folders(program.package, architecture)
        executable = find_file([folders[0] / "usr/bin", folders[0] / "usr/sbin"], program.package)
        command = [*loader_command(folders, architecture), str(executable)]
        if architecture == self.host or starts(program, command):
            return command
        return [self.emulator(PLATFORMS[architecture].emulator), *command]

    def emulator(self, name):
        for known in (name, name + "-static"):
            if found := shutil.which(known):
                return found
        folders = self.folders("qemu-user", self.host)
        return str(find_file([folders[0] / "usr/bin"], name))

    def wrapper(self, name):
        """The file that starts program `name`."""
        return self.cache / "bin" / name


def starts(program, command):
    try:
        done = subprocess.run([*command, *program.probe], capture_output=True, text=True, timeout=60, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return False
    return program.answer in done.stdout + done.stderr


def prepare(installer, program):
    """Returns the record of a program: {"argv", "needs"} if it starts, else {"reason", "temporary"}."""
    try:
        command = installer.argv(program)
        if not starts(program, command):
            raise SetupError(f"it was unpacked, but this host cannot start it ({shlex.join(command[:1])})")
    except SetupError as error:
        return {"reason": str(error), "temporary": error.temporary}
    wrapper = installer.wrapper(program.name)
    write_atomic(wrapper, f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', 0o755)
    needs = [word for argument in command for word in argument.split(":") if word.startswith("/")]
    return {"argv": [str(wrapper)], "needs": needs}


def record_path(name="programs"):
    return cache_dir() / f"{name}.json"


def known_programs():
    """{name: record} by the last set-up."""
    return read_json(record_path()).get("programs", {})


def settled(record):
    """Whether there is nothing to do: all its files exist, or this host cannot run it."""
    if "argv" in record:
        return all(os.path.exists(path) for path in record["argv"] + record["needs"])
    return "reason" in record and not record["temporary"]


def ensure(installer, programs=PROGRAMS):
    """Prepares those of `programs` that are not ready. Raises SetupError if a required one is unavailable."""
    path = record_path()
    saved = read_json(path)
    records = saved.get("programs", {}) if saved.get("key") == installer.key else {}
    todo = [program for program in programs if not settled(records.get(program.name, {}))]
    if todo:
        sweep(installer.store)
    for program in todo:
        records[program.name] = prepare(installer, program)
        write_atomic(path, json.dumps({"key": installer.key, "programs": records}, indent=1))
    missing = [program for program in programs if "reason" in records[program.name]]
    for program in missing:
        say(f"{program.name} is unavailable: {records[program.name]['reason']}")
    if any(program.required for program in missing):
        raise SetupError("a required program is missing (see above)")
    return bool(todo)

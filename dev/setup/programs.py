"""Makes each foreign program startable: its packages, its own loader and libraries, an emulator where one is needed."""

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

from . import chromium, npm
from .common import CHECKOUT, Trouble, digest, read_json, say, sweep
from .index import SUITE, Index
from .loader import PLATFORMS, loading, one
from .packages import Gone, install, read_lock
from .sources import debian_mirror

LOCK = Path(__file__).with_name("debian.lock")
ADVICE = "INFLIGHT_DEBIAN_MIRROR=<base address of a Debian mirror> gives the pinned one"
DOWNLOADS = 4  # at a time
HOSTS = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Program:
    name: str
    package: str
    architecture: str  # "host" or a Debian architecture
    probe: tuple  # arguments that make it answer at once
    answer: str  # what the answer contains
    required: bool = False
    system: tuple = ()  # names of the system's own, which will do
    command: Callable | None = None  # given a Workshop, makes a command line that is no matter of course


_HELLO = ("-c", "print(6 * 7)")
PROGRAMS = (
    Program("micropython-x64", "micropython", "host", _HELLO, "42", required=True),
    Program("micropython-x86", "micropython", "i386", _HELLO, "42"),
    Program("micropython-armhf", "micropython", "armhf", _HELLO, "42"),
    Program("mosquitto", "mosquitto", "host", ("-h",), "mosquitto version", required=True, system=("mosquitto",)),
)


def micropython_wasm(workshop):
    """The newest MicroPython that a registry has: of its WebAssembly port, which has no sockets."""
    return npm.command(CHECKOUT / "dev/wasm", workshop.cache / "wasm")


# What only tests need: `make test` brings it.
TESTS = (
    Program("micropython-wasm", "micropython", "host", _HELLO, "42", command=micropython_wasm),
    Program(
        "chromium", chromium.PACKAGE, "host", ("--version",), "Chrom", system=chromium.NAMES, command=chromium.command
    ),
)


def host_architecture():
    machine = platform.machine()
    if machine not in HOSTS:
        raise Trouble(f"no MicroPython is pinned for {machine}: an x86-64 or aarch64 Linux is needed")
    return HOSTS[machine]


def on_path(name):
    """The system's `name`; an ordinary user's PATH lacks the folders where Debian puts servers."""
    return shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/usr/local/sbin")


class Workshop:
    """Fetches packages and assembles command lines from them, below one cache folder."""

    def __init__(self, cache=None, mirror=None, lock=LOCK):
        self.cache = cache or cache_dir()
        self.host = host_architecture()
        self.mirror = mirror or debian_mirror()
        self.lock = read_lock(lock.read_text())
        code = sorted(Path(__file__).parent.glob("*.py"))
        self.key = digest(lock, *code, self.host, str(self.mirror), platform.release())
        self.store = self.cache / "packages"
        self._indexes = {}

    def index(self, architecture):
        """apt's view of the Debian suite, or of this system's own archives when there is no Debian mirror."""
        if architecture not in self._indexes:
            source = SUITE if self.mirror else "system"
            home = self.cache / "apt" / f"{source}-{architecture}"
            self._indexes[architecture] = Index(home, self.mirror, [architecture])
        return self._indexes[architecture]

    def folders(self, program, architecture):
        """The unpacked packages of a program, the pinned ones where a Debian mirror is known."""
        if not self.mirror:
            return self._folders_from_system(program, architecture)
        pinned = self.lock.get((program, architecture))
        if not pinned:
            raise Trouble(f"debian.lock pins no {program} for {architecture}")
        with ThreadPoolExecutor(DOWNLOADS) as pool:
            found = list(pool.map(self._pinned, pinned))
        return [folder or self._newer(package) for folder, package in zip(found, pinned, strict=True)]

    def _folders_from_system(self, program, architecture):
        if architecture not in (self.host, "all"):
            raise Trouble(f"apt knows no Debian mirror, and only that has {program} for {architecture}; {ADVICE}")
        say(f"no Debian mirror is configured: {program} comes from this system's own archive, not the pinned version")
        try:
            found = self.index(self.host).closure(program, self.host)
        except Trouble as error:
            raise Trouble(f"{error}; {ADVICE}", passing=error.passing) from None
        return [install(package, None, self.store) for package in found]

    def _pinned(self, package):
        """Its folder; None if the mirror has it no more."""
        try:
            return install(package, self.mirror, self.store)
        except Gone:
            return None

    def _newer(self, package):
        architecture = self.host if package.architecture == "all" else package.architecture
        newer = self.index(architecture).find(package.name, architecture)
        say(
            f"NOTE: the mirror replaced {package.name} {package.version} (pinned) by {newer.version}: using that, "
            "its index is signed; `python -m dev.relock` renews the pins"
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
        executable = one([folders[0] / "usr/bin", folders[0] / "usr/sbin"], program.package)
        command = [*loading(folders, architecture), str(executable)]
        if architecture == self.host or starts(program, command):
            return command
        return [self.emulator(PLATFORMS[architecture].emulator), *command]

    def emulator(self, name):
        for known in (name, name + "-static"):
            if found := shutil.which(known):
                return found
        folders = self.folders("qemu-user", self.host)
        return str(one([folders[0] / "usr/bin"], name))

    def wrapper(self, name):
        """The file that starts program `name`."""
        return self.cache / "bin" / name


def starts(program, command):
    try:
        done = subprocess.run([*command, *program.probe], capture_output=True, text=True, timeout=60, errors="replace")
    except (OSError, subprocess.TimeoutExpired):
        return False
    return program.answer in done.stdout + done.stderr


def prepare(workshop, program):
    """The record of one program: {"argv", "needs"} when it starts, else {"reason", "passing"}."""
    try:
        command = workshop.argv(program)
        if not starts(program, command):
            raise Trouble(f"it was unpacked, but this host cannot start it ({shlex.join(command[:1])})")
    except Trouble as error:
        return {"reason": str(error), "passing": error.passing}
    wrapper = workshop.wrapper(program.name)
    write_atomic(wrapper, f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', 0o755)
    needs = [word for argument in command for word in argument.split(":") if word.startswith("/")]
    return {"argv": [str(wrapper)], "needs": needs}


def record_path(cache=None):
    return (cache or cache_dir()) / "programs.json"


def known_programs(cache=None):
    """What the last set-up recorded: {name: record}."""
    return read_json(record_path(cache)).get("programs", {})


def settled(record):
    """Nothing to do for this program: all its files stand, or this host will never run it."""
    if "argv" in record:
        return all(os.path.exists(path) for path in record["argv"] + record["needs"])
    return "reason" in record and not record["passing"]


def ensure(workshop, programs=PROGRAMS):
    """Prepares each of `programs` that is not ready yet; raises Trouble when a required one stays unavailable."""
    path = record_path(workshop.cache)
    saved = read_json(path)
    records = saved.get("programs", {}) if saved.get("key") == workshop.key else {}
    todo = [program for program in programs if not settled(records.get(program.name, {}))]
    if todo:
        sweep(workshop.store)
    for program in todo:
        records[program.name] = prepare(workshop, program)
        write_atomic(path, json.dumps({"key": workshop.key, "programs": records}, indent=1))
    missing = [program for program in programs if "reason" in records[program.name]]
    for program in missing:
        say(f"{program.name} is unavailable: {records[program.name]['reason']}")
    if any(program.required for program in missing):
        raise Trouble("a required program is missing (see above)")
    return bool(todo)

"""Renews all pins, the files *.lock: `python -m tools.setup.relock` (for who maintains them)."""

import argparse
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

from inflight_tools.cache import write_atomic
from tools.setup import brokers, fuzz, home_assistant, object_storage
from tools.setup.common import CHECKOUT, SetupError, say
from tools.setup.environment import REQUIREMENTS
from tools.setup.index import SUITE, Index
from tools.setup.programs import LOCK
from tools.setup.sources import debian_mirror
from tools.setup.spark import LOCKS as PIPELINE
from tools.setup.typecheck import LOCKS, PORTS

PROGRAMS = [
    ("micropython", ("amd64", "arm64", "i386", "armhf")),
    ("mosquitto", ("amd64", "arm64")),
    ("chromium-headless-shell", ("amd64", "arm64")),
    ("promtool", ("amd64", "arm64")),
    ("qemu-user", ("amd64", "arm64")),
    ("python3-pip-whl", ("all",)),
]
HEAD = "# %s; renewed by `python -m tools.setup.relock`.\n"
FIELDS = "# program name version architecture size SHA-256 path-below-the-mirror\n"
DEBIAN_HEAD = HEAD % f"Packages of Debian {SUITE} that `make setup` unpacks into its cache" + FIELDS
BROKER_HEAD = HEAD % f"RabbitMQ and Erlang of Debian {SUITE}, for the interoperability suite" + FIELDS
EXTRAS = ("test", "boards", "emulator", "lint")  # what everybody gets
STUBS = "1.29.0"  # the MicroPython whose stubs the type check uses


def lock_lines(index, programs, without=()):
    for program, architectures in programs:
        for architecture in architectures:
            for p in index.closure(program, "amd64" if architecture == "all" else architecture, without):
                yield f"{program} {p.name} {p.version} {architecture} {p.size} {p.sha256} {p.path}"


def relock_debian(home):
    mirror = debian_mirror()
    if not mirror:
        raise SetupError("no Debian mirror is configured: set INFLIGHT_DEBIAN_MIRROR")
    index = Index(home / "apt", mirror, ["amd64", "arm64", "i386", "armhf"])
    rabbitmq = list(lock_lines(index, [("rabbitmq-server", ("amd64", "arm64"))], brokers.NOT_LOADED))
    write_lines(LOCK, DEBIAN_HEAD, list(lock_lines(index, PROGRAMS)))
    write_lines(brokers.RABBITMQ, BROKER_HEAD, rabbitmq)


def write_lines(lock, head, lines):
    write_atomic(lock, head + "\n".join(lines) + "\n")
    say(f"{lock.name}: {len(lines)} lines")


def relock_python(home):
    """uv, because it alone resolves for every Python version and processor at once."""
    venv.create(home / "venv", with_pip=True)
    subprocess.run([home / "venv/bin/pip", "install", "-q", "uv"], check=True)
    most = [word for extra in EXTRAS for word in ("--extra", extra)]
    resolve(home, REQUIREMENTS, _of_project(*EXTRAS), [*most, "pyproject.toml"])
    for name, *extras in (("fleet", "readers"), ("java",)):
        words = [word for extra in (name, *extras) for word in ("--extra", extra)]
        resolve(home, PIPELINE / f"{name}.lock", _of_project(name, *extras), [*words, "pyproject.toml"])
    resolve(home, fuzz.LOCK, _of_project("fuzz"), ["--extra", "fuzz", "pyproject.toml"])
    amqtt = "amqtt, for the interoperability suite, in an environment of its own"
    resolve(home, brokers.LOCKS / "amqtt.lock", amqtt, ["-"], "amqtt~=0.12.1\n")
    moto = "moto, a stand-in for S3, in an environment of its own"
    resolve(home, object_storage.LOCK, moto, [str(object_storage.LOCK.with_suffix(".in"))])
    core = "Home Assistant with MQTT, recorder and frontend, for its check"
    words, oldest = ["--no-deps", str(home_assistant.LOCK.with_suffix(".in"))], "%d.%d" % home_assistant.PYTHONS[0]
    resolve(home, home_assistant.LOCK, core, words, python=oldest)
    for port in PORTS.values():
        wanted = f"micropython-{port}-stubs~={STUBS}\n"
        resolve(home, LOCKS / f"{port}.lock", "For tools/setup/typecheck.py", ["-"], wanted)


def _of_project(*extras):
    return f"Resolved from pyproject.toml, {', '.join(extras)}, for every CPython >= 3.10"


def resolve(home, lock, what, words, wanted=None, python="3.10"):
    command = [home / "venv/bin/uv", "pip", "compile", "-q", "--universal", "--python-version", python, "--upgrade"]
    command += ["--cache-dir", home / "uv", "--generate-hashes", "--no-header", "--no-annotate", *words]
    resolved = subprocess.run(command, check=True, cwd=CHECKOUT, stdout=subprocess.PIPE, input=wanted, text=True).stdout
    write_atomic(lock, HEAD % what + resolved)
    say(f"{lock.name}: {resolved.count('==')} packages")


def main():
    argparse.ArgumentParser(prog="python -m tools.setup.relock", description=__doc__.partition(":")[0]).parse_args()
    with tempfile.TemporaryDirectory() as home:
        try:
            relock_debian(Path(home))
            relock_python(Path(home))
        except SetupError as error:
            sys.exit(f"relock: {error}")


if __name__ == "__main__":
    main()

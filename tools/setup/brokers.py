"""More brokers for the interoperability tests, in the cache: amqtt, aedes, RabbitMQ. Each has a lock of its own. If one
cannot be installed, the reason is recorded, and its tests are skipped."""

import json
import shlex
from pathlib import Path

from inflight_tools.cache import write_atomic
from tools.setup import environment, npm
from tools.setup.common import CHECKOUT, SetupError, digest, read_json, say
from tools.setup.loader import loader_command
from tools.setup.programs import Installer, record_path, settled

LOCKS = CHECKOUT / "tools/peers/brokers"
RABBITMQ = LOCKS / "rabbitmq.lock"
# Programs that Erlang starts by their paths. `erl` would start the name server, epmd; Rabbitmq.start() does that.
_STARTED = ("beam.smp", "erl_child_setup", "inet_gethost", "epmd")
# Needed by RabbitMQ's command-line tools, but not by its server.
NOT_LOADED = {"openssl", "openssl-provider-legacy", "procps", "python3", "socat"}


def _amqtt(installer):
    """In a virtual environment of its own, since it needs other versions of packages."""
    lock = LOCKS / "amqtt.lock"
    venv = installer.cache / "brokers" / f"amqtt-{environment.key(lock)}"
    environment.ensure(venv, lock)
    return {"argv": [str(venv / "bin/python"), str(venv / "bin/amqtt")]}


def _rabbitmq(installer):
    """Erlang with its own loader and libraries. Wrappers replace the programs that it starts by their paths."""
    folders = Installer(RABBITMQ).folders("rabbitmq-server", installer.host)
    erlang = [path for folder in folders if (path := folder / "usr/lib/erlang").is_dir()]
    root = next(path for path in erlang if list(path.glob("erts-*")))
    start = loader_command(folders, installer.host)
    wrappers = installer.cache / "brokers" / f"rabbitmq-{digest(*map(str, folders))}"
    for name in _STARTED:
        program = next(root.glob(f"erts-*/bin/{name}"))
        write_atomic(wrappers / name, f'#!/bin/sh\nexec {shlex.join(start)} {program} "$@"\n', 0o755)
    write_atomic(wrappers / "erl", "#!/bin/sh\n# Called to start the name server, which runs already.\n", 0o755)
    return {
        "argv": [str(wrappers / "beam.smp")],
        "root": str(root),
        "plugins": str(next(folders[0].glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins"))),
        "libraries": [str(path / "lib") for path in erlang if path != root],
    }


MAKERS = {
    "amqtt": _amqtt,
    "aedes": lambda installer: {"argv": npm.command(LOCKS / "aedes", installer.cache / "brokers")},
    "rabbitmq": _rabbitmq,
}


def known(name):
    """The record of a broker by the last set-up. It has "argv" or "reason"."""
    return read_json(record_path("brokers")).get(name, {"reason": "not set up: run `make test-brokers`"})


def ensure(installer):
    """Installs what is missing. Returns True if there was something to do."""
    path = record_path("brokers")
    saved = read_json(path)
    key = digest(*sorted([*LOCKS.glob("*.lock"), *LOCKS.glob("aedes/*")]), Path(__file__), installer.key)
    records = saved if saved.get("key") == key else {"key": key}
    todo = [name for name in MAKERS if not settled(records.get(name, {}))]
    for name in todo:
        try:
            records[name] = MAKERS[name](installer)
            records[name]["needs"] = [*records[name]["argv"], *records[name].get("libraries", ())]
        except SetupError as error:
            say(f"{name} is unavailable: {error}")
            records[name] = {"reason": str(error), "temporary": error.temporary}
        write_atomic(path, json.dumps(records, indent=1))
    return bool(todo)

"""Three more brokers for the interoperability suite, in the cache: amqtt, aedes, RabbitMQ. Each from a lock of its own;
one that this host cannot have is recorded with its reason, and its tests are skipped."""

import json
import shlex
from pathlib import Path

from inflight_tools.cache import write_atomic

from . import environment, npm
from .common import CHECKOUT, Trouble, digest, read_json, say
from .loader import loading
from .programs import Workshop, record_path, settled

LOCKS = CHECKOUT / "dev/brokers"
RABBITMQ = LOCKS / "rabbitmq.lock"
# Erlang starts these by their paths; the last one starts a name server, which we start ourselves.
_STARTED = ("beam.smp", "erl_child_setup", "inet_gethost", "epmd")
# RabbitMQ's command-line tools want these, its server does not.
_NOT_LOADED = {"openssl", "openssl-provider-legacy", "procps", "python3", "socat"}


def lock_lines(index, architecture):
    """The lines of rabbitmq.lock for one architecture; `index` is an index.Index()."""
    names = ["rabbitmq-server"]
    for known in names:
        names += [name for name in index.depends(known, architecture) if name not in {*names, *_NOT_LOADED}]
    for name in names:
        p = index.find(name, architecture)
        yield f"rabbitmq-server {p.name} {p.version} {architecture} {p.size} {p.sha256} {p.path}"


def _amqtt(workshop):
    """A virtual environment of its own: what it pins need not be what we pin."""
    lock = LOCKS / "amqtt.lock"
    venv = workshop.cache / "brokers" / f"amqtt-{environment.key(lock)}"
    environment.ensure(venv, lock)
    return {"argv": [str(venv / "bin/python"), str(venv / "bin/amqtt")]}


def _aedes(workshop):
    return {"argv": npm.command(LOCKS / "aedes", workshop.cache / "brokers")}


def _rabbitmq(workshop):
    """Erlang with its own loader and libraries: wrappers stand for the programs that it starts by their paths."""
    folders = Workshop(workshop.cache, workshop.mirror, RABBITMQ).folders("rabbitmq-server", workshop.host)
    erlang = [path for folder in folders if (path := folder / "usr/lib/erlang").is_dir()]
    root = next(path for path in erlang if list(path.glob("erts-*")))
    start = loading(folders, workshop.host)
    wrappers = workshop.cache / "brokers" / f"rabbitmq-{digest(*map(str, folders))}"
    for name in _STARTED:
        program = next(root.glob(f"erts-*/bin/{name}"))
        write_atomic(wrappers / name, f'#!/bin/sh\nexec {shlex.join(start)} {program} "$@"\n', 0o755)
    write_atomic(wrappers / "erl", "#!/bin/sh\n# The name server that this is called for runs already.\n", 0o755)
    return {
        "argv": [str(wrappers / "beam.smp")],
        "root": str(root),
        "plugins": str(next(folders[0].glob("usr/lib/rabbitmq/lib/rabbitmq_server-*/plugins"))),
        "libraries": [str(path / "lib") for path in erlang if path != root],
    }


MAKERS = {"amqtt": _amqtt, "aedes": _aedes, "rabbitmq": _rabbitmq}


def path(cache=None):
    return record_path(cache).with_name("brokers.json")


def known(name):
    """What the last set-up recorded of a broker: with "argv", or with a "reason"."""
    return read_json(path()).get(name, {"reason": "not set up: run `make test-brokers`"})


def _key(workshop):
    files = sorted([*LOCKS.glob("*.lock"), *LOCKS.glob("aedes/*")])
    return digest(*files, Path(__file__), workshop.key)


def ensure(workshop):
    """Installs what is missing. True when there was something to do."""
    saved = read_json(path(workshop.cache))
    key = _key(workshop)
    records = saved if saved.get("key") == key else {"key": key}
    todo = [name for name in MAKERS if not settled(records.get(name, {}))]
    for name in todo:
        try:
            records[name] = MAKERS[name](workshop)
            records[name]["needs"] = [*records[name]["argv"], *records[name].get("libraries", ())]
        except Trouble as error:
            say(f"{name} is unavailable: {error}")
            records[name] = {"reason": str(error), "passing": error.passing}
        write_atomic(path(workshop.cache), json.dumps(records, indent=1))
    return bool(todo)

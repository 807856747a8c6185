"""Containers for what `inflight fleet service` keeps running: a compose file, and the Dockerfile of its image. Files
and folders have the paths in a container that they have on this machine, and all containers use this machine's
network: so the commands are those of the units."""

import json
import os

from inflight_tools.fleet.console.access import is_loopback
from inflight_tools.fleet.spark.session import memory_mb

_BROKER_USER, _USER = 1883, 8470  # ids: of mosquitto in its image, of ours
_BROKER_FILES, _BROKER_DATA = "/etc/mosquitto", "/var/lib/mosquitto"  # as in examples/mosquitto
_JVM_MB, _WORKER_MB = 1024, 256  # that Spark takes beside the driver's memory: once, and for each core
_SETTINGS = {
    "restart": "always",
    "network_mode": "host",
    "read_only": True,
    "cap_drop": ["ALL"],
    "security_opt": ["no-new-privileges:true"],
    "init": True,  # Spark leaves processes behind, which somebody has to wait for
    "stop_signal": "SIGTERM",
    "stop_grace_period": "90s",  # as systemd has it
    "logging": {"driver": "json-file", "options": {"max-size": "10m", "max-file": "3"}},  # by default without a limit
}
_HEAD = "# Written by `inflight fleet service --compose`, which replaces it.\n"
_IMAGE = """\
FROM python:3.11-slim
COPY inflight_mqtt-*.whl /tmp/
RUN pip install --no-cache-dir "$(echo /tmp/inflight_mqtt-*.whl)[fleet,java]"
RUN useradd --uid {user} inflight
USER inflight
ENV INFLIGHT_CACHE=/tmp/inflight
ENTRYPOINT ["inflight"]
"""
# Says whether metrics are served.
_CHECK = "import urllib.request; urllib.request.urlopen('http://{}:{}/metrics', timeout=5)"


def _health(*words):
    return {"test": ["CMD", *words], "interval": "30s", "timeout": "10s", "start_period": "60s"}


def _bound(path, *mode):
    if ":" in str(path):
        raise ValueError(f"{path}: a compose file takes no path with a colon")
    return ":".join((str(path), str(path), *mode))


def _broker(host, port):
    # Its memory has no limit: it keeps there what the collector has not fetched.
    return {
        "image": "eclipse-mosquitto:2.0.21",
        "user": f"{_BROKER_USER}:{_BROKER_USER}",
        "command": ["mosquitto", "-c", f"{_BROKER_FILES}/mosquitto.conf"],
        "volumes": [_bound(_BROKER_FILES, "ro"), _bound(_BROKER_DATA)],
        "healthcheck": _health("nc", "-z", host, str(port)),
    } | _SETTINGS


def _ours(words, data, secrets, place):
    host, port = place
    return {
        "build": ".",
        "user": f"{_USER}:{_USER}",
        "command": words,
        "volumes": [_bound(data), "/tmp", *(_bound(one, "ro") for one in secrets if str(one) in words)],
        "healthcheck": _health("python", "-c", _CHECK.format(f"[{host}]" if ":" in host else host, port)),
    } | _SETTINGS


def _yaml(fields, margin=""):
    """Lines of a dict as YAML. Lists stay JSON, which is YAML, too."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield f"{margin}{name}:\n"
            yield from _yaml(value, margin + "  ")
        else:
            yield f"{margin}{name}: {json.dumps(value, ensure_ascii=False).replace('$', '$$')}\n"


def files(started, data, broker, secrets, places):
    """{name: text} of the files for these services. started: {service: words of its command}; data: folder that all may
    write to; broker: a broker.Broker; secrets: paths of files that commands name; places: {service: (host, port) of its
    metrics}."""
    services = {name: _ours(words, data, secrets, places[name]) for name, words in started.items()}
    heap_mb = memory_mb()
    services["tables"] |= {
        "command": [*started["tables"], "--conf", f"spark.driver.memory={heap_mb}m"],
        "mem_limit": f"{heap_mb + _JVM_MB + _WORKER_MB * os.cpu_count()}m",
    }
    after = {"collect": "tables"}
    if is_loopback(broker.host):
        services = {"broker": _broker(broker.host, broker.port)} | services
        after["broker"] = "collect"
    for first, second in after.items():
        services[second]["depends_on"] = {first: {"condition": "service_healthy"}}
    text = "".join(_yaml({"name": "inflight", "services": services}))
    return {"compose.yaml": _HEAD + text, "Dockerfile": _HEAD + _IMAGE.format(user=_USER)}


def steps(folder, data, broker):
    """Commands that start what is in the folder; the paths as a shell takes them."""
    if is_loopback(broker.host):
        yield f"sudo install -d -o {_BROKER_USER} -g {_BROKER_USER} {_BROKER_DATA}"
        yield f"sudo chown -R {_BROKER_USER}:{_BROKER_USER} {_BROKER_FILES}"
    yield f"sudo install -d -m 700 -o {_USER} -g {_USER} {data}"
    yield f"rm -f {folder}/*.whl; pip wheel --no-deps --wheel-dir {folder} CHECKOUT"
    yield f"sudo docker compose -f {folder}/compose.yaml up --build --detach"

"""The command `inflight fleet collect`."""

import contextlib
import json
import os
import re
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from inflight_tools.boards.device.broker import broker_of
from inflight_tools.boards.settings import CONFIG as CONFIG_PATH
from inflight_tools.boards.settings import settings
from inflight_tools.failure import print_failure, reason
from inflight_tools.fleet.collect.collector import Collector, NotWritten, Refused
from inflight_tools.fleet.collect.spool import Spool
from inflight_tools.fleet.lock import Busy
from inflight_tools.fleet.monitoring.option import METRICS, serve_metrics

_PASSWORD = "INFLIGHT_PASSWORD"
_FILE = {"exists": True, "dir_okay": False}
# What `pipeline` hands on to `collect`.
Broker = Annotated[str | None, typer.Option(help="host or host:port")]
Config = Annotated[Path | None, typer.Option(help="a device's configuration file: its broker, user, root")]
Root = Annotated[
    str | None, typer.Option(help="first levels of the devices' topics; default: the configuration's, else inflight")
]
Ca = Annotated[Path | None, typer.Option(**_FILE, help="TLS: the CA's certificate, PEM or DER")]
Cert = Annotated[Path | None, typer.Option(**_FILE, help="TLS: our own certificate, PEM")]
Key = Annotated[Path | None, typer.Option(**_FILE, help="TLS: its private key, PEM")]
Websocket = Annotated[str | None, typer.Option(help="path of a WebSocket at the broker (/mqtt): port 80, with TLS 443")]
User = Annotated[str | None, typer.Option(help="user name at the broker")]
PasswordFile = Annotated[
    Path | None, typer.Option(**_FILE, help=f"file with the password; default: the environment variable {_PASSWORD}")
]
Level = Annotated[
    int | None,
    typer.Option(
        min=4, max=5, help="5: MQTT 5, keeps properties; 4: MQTT 3.1.1; default: 5 if the configuration has 5"
    ),
]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


def _fields(broker, config, ca, cert, key):
    """The fields of the configuration, or what stands for it. Raises ValueError."""
    if not broker and not config:
        raise ValueError("no broker: name one with --broker host or host:port, or with --config config.json")
    return json.loads(settings(config, ca, cert, key)[CONFIG_PATH]) if config else {"host": "", "tls_ca": bool(ca)}


def find_broker(broker, config, root, ca, cert, key, user, password_file, websocket, level=None):
    """(the broker with its credentials, a device.broker.Broker; the protocol level). Raises ValueError, OSError."""
    fields = _fields(broker, config, ca, cert, key)
    found = broker_of(fields, broker, ca, cert, key, websocket)
    root = (root or found.root).strip("/")
    if not root or set(root) & set("+#\0"):
        raise ValueError(f"--root {root}: the first levels of the devices' topics, without + and #")
    if password_file:
        password = password_file.read_text(encoding="utf-8").rstrip("\r\n")
    else:
        password = os.environ.get(_PASSWORD) or found.password
    user = user or found.user
    if password and not user:
        raise ValueError("a password, but no user: name it with --user")
    place = replace(found, root=root, user=user, password=password, device=None)
    return place, level or (5 if fields.get("protocol_level") == 5 else 4)


def _check_names(**names):
    for option, name in names.items():
        if name is not None and not _NAME.fullmatch(name):
            raise ValueError(f"--{option} {name}: letters, digits and _ . - inside, 64 at most")


def main(
    landing: Path = typer.Option(..., file_okay=False, help="folder of the landing files"),
    broker: Broker = None,
    config: Config = None,
    root: Root = None,
    name: str = typer.Option("collector-0", help="client id of the session: unique, and never changed"),
    share: str = typer.Option(None, help="group of collectors that share the load"),
    ca: Ca = None,
    cert: Cert = None,
    key: Key = None,
    websocket: Websocket = None,
    user: User = None,
    password_file: PasswordFile = None,
    size: float = typer.Option(16, min=0.001, help="MiB after which a landing file is finished"),
    age: float = typer.Option(10, min=0.1, help="seconds after which a landing file is finished"),
    max_payload: int = typer.Option(1 << 20, min=1024, max=16_000_000, help="longer payloads are cut, and marked"),
    report: float = typer.Option(10, min=0.1, help="seconds between reports"),
    as_json: bool = typer.Option(False, "--json", help="print a line of JSON for each report"),
    metrics: str = METRICS,
    protocol_level: Level = None,
    marker: float = typer.Option(60, min=0, help="seconds between markers, which prove what is lost; 0: none"),
):
    """Writes the fleet's messages into landing files, until SIGTERM or Ctrl-C. Then it writes and acknowledges what it
    has received, and finishes the last file. Exit status 1 if the broker refuses the collector, or if messages could
    not be written (the broker keeps those)."""
    console = Console(stderr=True)

    def say(text):
        with contextlib.suppress(OSError):  # a full disk must not end the collector through its log
            console.print(Text.assemble((time.strftime("%H:%M:%S"), "dim"), "  ", text), soft_wrap=True)

    def tell(figures):
        with contextlib.suppress(OSError):
            print(json.dumps(figures), flush=True)

    try:
        _check_names(name=name, share=share)
        server, level = find_broker(broker, config, root, ca, cert, key, user, password_file, websocket, protocol_level)
        spool = Spool(landing, name, int(size * (1 << 20)), age)
        figures = landing / f".{name}.json"
        told = tell if as_json else None
        collector = Collector(server, name, spool, say, figures, share, max_payload, report, marker, told, level)
        serve_metrics(metrics, say, lambda module: module.CollectorMetrics(collector, name, landing))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: collector.stop())
        collector.run()
    except (ValueError, OSError, Busy, Refused, NotWritten) as e:
        print_failure(console, reason(e))
        raise typer.Exit(1) from None

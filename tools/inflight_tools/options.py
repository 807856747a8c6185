"""The options that more than one command has: each means the same wherever it stands. Defaults differ, and what a
command does with it is in the command's own text."""

import dataclasses
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from inflight_tools.boards.images.variants import names, without_image
from inflight_tools.settings import Tls

_FILE = {"exists": True, "dir_okay": False}

# --- results ---

Json = Annotated[bool, typer.Option("--json", help="print results to stdout as JSON, one object a line")]


def out(default: str) -> Any:
    """The option --out; `default`: what its help says of it."""
    return typer.Option("--out", help="where the result is written", show_default=default)


# --- boards ---

_TAKE_ALL = ("deploy", "freeze", "library", "release")  # commands that make no image


def _boards(context: typer.Context) -> list[str]:
    """The values of --board of this command."""
    return [*names(), *(without_image() if context.info_name in _TAKE_ALL else ())]


def _known(context: typer.Context, value: Any) -> Any:
    known = _boards(context)
    for name in value if isinstance(value, (list, tuple)) else [value]:
        if name is not None and name not in known:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(known)}")
    return value


_BOARD: dict[str, Any] = {
    "help": f"one of {', '.join(names())}; {', '.join(f'`{name}`' for name in _TAKE_ALL[:-1])} and `{_TAKE_ALL[-1]}` "
    f"also take {', '.join(without_image())}",
    "callback": _known,
    "autocompletion": _boards,
}
Board = Annotated[str, typer.Option(**_BOARD)]
BoardOrNone = Annotated[str | None, typer.Option(**_BOARD)]
BoardFound = Annotated[str | None, typer.Option(**_BOARD, show_default="what is connected")]
Boards = Annotated[list[str] | None, typer.Option(**_BOARD, show_default="all")]
Firmware = Annotated[Path | None, typer.Option(help="file of MicroPython's firmware for the board")]
Sha256 = Annotated[str | None, typer.Option(help="the SHA-256 that the firmware's file must have")]
FlashMb = Annotated[int | None, typer.Option(help="ESP32: MB of flash, if not what the firmware says")]
Ota = Annotated[bool, typer.Option("--ota", help="ESP32: space for a second firmware, for updates over MQTT")]
_BYTECODE = "no machine code: for devices of several processors, or with MicroPython older than 1.23"
Bytecode = Annotated[bool, typer.Option("--bytecode", help=_BYTECODE)]
Romfs = Annotated[bool, typer.Option("--romfs", help="modules go to the ROM file system of the firmware")]
_PORT = "serial port of the board, /dev/ttyACM0 for example; `flash` also takes a Pico's mounted boot drive"
PortOrNone = Annotated[str | None, typer.Option(help=_PORT)]
PortFound = Annotated[str | None, typer.Option(help=_PORT, show_default="the one that has a board")]
Wait = Annotated[float, typer.Option(min=0, help="seconds to wait for the birth message; 0: not at all")]
WAIT_S = 90  # the default
SigningKey = Annotated[
    Path, typer.Option("--signing-key", help="file of the private key that signs releases, as `inflight keys` makes it")
]

# --- a device's configuration, and the broker ---

_CONFIG = "a device's configuration file: a board gets it; broker, user and root of a connection from here are in it"
Config = Annotated[Path, typer.Option(help=_CONFIG)]
ConfigOrNone = Annotated[Path | None, typer.Option(help=_CONFIG)]
CONFIG = Path("config.json")  # the default, where a command needs one
ConfigHere = Annotated[Path | None, typer.Option(help=_CONFIG, show_default="config.json, if there is one")]
App = Annotated[
    Path | None,
    typer.Option(help="folder of your own modules", show_default="app beside the configuration, or in this folder"),
]
Ca = Annotated[Path | None, typer.Option(**_FILE, help="TLS: the CA's certificate, PEM or DER; tls_ca on a board")]
Cert = Annotated[
    Path | None,
    typer.Option(**_FILE, help="TLS: the client's certificate, PEM, for a board alone also DER; tls_cert on a board"),
]
Key = Annotated[
    Path | None,
    typer.Option(**_FILE, help="TLS: its private key, PEM, for a board alone also DER; tls_key on a board"),
]
Broker = Annotated[str | None, typer.Option(help="host or host:port of the broker as this computer knows it")]
Websocket = Annotated[str | None, typer.Option(help="path of a WebSocket at the broker (/mqtt): port 80, with TLS 443")]
User = Annotated[str | None, typer.Option(help="user name at the broker")]
PASSWORD = "INFLIGHT_PASSWORD"
PasswordFile = Annotated[
    Path | None, typer.Option(**_FILE, help=f"file with the password; default: the environment variable {PASSWORD}")
]
ProtocolLevel = Annotated[
    int | None,
    typer.Option(
        min=4, max=5, help="5: MQTT 5, keeps properties; 4: MQTT 3.1.1; default: 5 if the configuration has 5"
    ),
]
Devices = Annotated[list[str] | None, typer.Option("--device", help="a device, as in its topics; can be repeated")]

# --- the pipeline ---

Root = Annotated[str | None, typer.Option(help="first levels of the devices' topics", show_default="inflight")]
_DATA: dict[str, Any] = {"file_okay": False, "help": "folder of landing/ and tables/"}
Data = Annotated[Path, typer.Option("--data", **_DATA)]
DataOrNone = Annotated[Path | None, typer.Option("--data", **_DATA)]
DATA = Path("telemetry")  # the default
Landing = Annotated[
    str | None,
    typer.Option(
        help="folder of the landing files; default: landing in --data. A URI if they are only read, or Spark reads them"
    ),
]


def local_folder(folder: str, name: str = "--landing") -> Path:
    """The Path of the argument `name`, for a command that writes or moves files there. Ends the command if it is no
    folder of this computer."""
    if "://" in folder or Path(folder).is_file():
        raise typer.BadParameter(f"{folder}: name a folder of this computer", param_hint=f"'{name}'")
    return Path(folder)


Tables = Annotated[
    str | None,
    typer.Option(
        help="folder or URI of the tables: hdfs://..., s3a://..., as Spark's Hadoop reads it",
        show_default="tables in --data",
    ),
]
Once = Annotated[bool, typer.Option("--once", help="take what is there, and end: for a cron job")]
Every = Annotated[float, typer.Option(min=0.1, help="seconds between micro-batches, or between looks for files")]
EVERY_S = 10  # the default
Age = Annotated[float, typer.Option(min=0.1, help="seconds after which a landing file is finished")]
AGE_S = 10
Since = Annotated[
    str | None,
    typer.Option(help="only what was received then or later: 24h or 7d (ago), or 2026-03-01T08:00 (UTC)"),
]
Until = Annotated[str | None, typer.Option(help="only what was received before that time, as --since")]
Grace = Annotated[
    float,
    typer.Option(min=0, help="seconds after which a missing number counts as lost, if no marker proves it earlier"),
]
GRACE_S = 3600  # the default
Retired = Annotated[
    list[str] | None,
    typer.Option(help="a collector that never returns: what its session had is lost; can be repeated"),
]
Master = Annotated[str, typer.Option(help="Spark's master: local[*], spark://host:7077, yarn, k8s://...")]
MASTER = "local[*]"  # the default
Partitions = Annotated[int, typer.Option(min=1, help="shuffle partitions: two for each core")]
Conf = Annotated[list[str] | None, typer.Option(help="a Spark property, name=value; can be repeated")]
Metrics = Annotated[
    str | None,
    typer.Option(
        help="serve metrics for Prometheus at this port of 127.0.0.1, or at host:port; `pipeline` serves the "
        "collector's there, and the tables' at the next port"
    ),
]


# --- options that go together ---


class _WithTls:
    ca: Path | None
    cert: Path | None
    key: Path | None

    @property
    def tls(self) -> Tls:
        return Tls(self.ca, self.cert, self.key)


@dataclasses.dataclass(frozen=True)
class TlsOptions(_WithTls):
    ca: Ca = None
    cert: Cert = None
    key: Key = None


@dataclasses.dataclass(frozen=True)
class ImageOptions(_WithTls):
    """What an image consists of, see images.board_image.make()."""

    board: Board
    firmware: Firmware = None
    sha256: Sha256 = None
    config: ConfigHere = None
    app: App = None
    ca: Ca = None
    cert: Cert = None
    key: Key = None
    flash_mb: FlashMb = None
    ota: Ota = False
    romfs: Romfs = False

    @property
    def configuration(self) -> Path | None:
        """The file of the configuration; None: there is none, and the board is to be set up."""
        return self.config or (CONFIG if CONFIG.is_file() else None)

    def given(self, **others: Any) -> dict[str, Any]:
        """Arguments for images.board_image.make()."""
        own = {name: value for name, value in vars(self).items() if name not in Tls._fields}
        return own | {"config": self.configuration, "tls": self.tls} | others


@dataclasses.dataclass(frozen=True)
class FlashOptions(ImageOptions):
    """ImageOptions for a board that is there, and can tell what it is."""

    board: BoardFound = None


@dataclasses.dataclass(frozen=True)
class BrokerOptions(_WithTls):
    """Which broker, and as whom, see broker.find_broker(). With `config` the others go before it."""

    broker: Broker = None
    config: ConfigOrNone = None
    root: Root = None
    ca: Ca = None
    cert: Cert = None
    key: Key = None
    websocket: Websocket = None
    user: User = None
    password_file: PasswordFile = None
    protocol_level: ProtocolLevel = None


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A function for Typer: in place of a parameter of `command` whose type is a dataclass, it has a parameter for each
    field of that class."""
    groups: dict[str, Any] = {}
    flat: list[inspect.Parameter] = []
    for name, found in inspect.signature(command).parameters.items():
        if dataclasses.is_dataclass(found.annotation):
            groups[name] = found.annotation
            flat += inspect.signature(groups[name]).parameters.values()
        else:
            flat.append(found)

    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in dataclasses.fields(group)})
        command(**given)

    keywords = [found.replace(kind=found.KEYWORD_ONLY) for found in flat]  # with a default or not, in any order
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined]
    run.__annotations__ = {found.name: found.annotation for found in flat}
    run.__name__, run.__doc__ = command.__name__, command.__doc__
    return run

"""The options that more than one command has: one type wherever an option stands, a help that fits the command."""

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from inflight_tools.boards.images.variants import names, without_image
from inflight_tools.settings import Tls

# --- results ---

Json = Annotated[bool, typer.Option("--json", help="print results to stdout as JSON, one object a line")]


def out(what: str, default: str) -> Any:
    """The option --out; `default`: what its help says of it."""
    return typer.Option("--out", help=what, show_default=default)


# --- boards ---


def _board(*others: str, **more: Any) -> Any:
    """The option --board: what images are made for, and `others`."""

    def known(value: Any) -> Any:
        for name in value if isinstance(value, (list, tuple)) else [value]:
            if name is not None and name not in found:
                raise typer.BadParameter(f"{name!r} is not one of {', '.join(found)}")
        return value

    found = [*names(), *others]
    return typer.Option(help=f"one of {', '.join(found)}", callback=known, autocompletion=lambda: found, **more)


_CONNECTED = "what is connected"
Board = Annotated[str, _board()]
BoardFound = Annotated[str | None, _board(show_default=_CONNECTED)]
Boards = Annotated[list[str] | None, _board(show_default="all")]
AnyBoard = Annotated[str, _board(*without_image())]  # of commands that make no image
AnyBoardOrNone = Annotated[str | None, _board(*without_image())]
AnyBoardFound = Annotated[str | None, _board(*without_image(), show_default=_CONNECTED)]
Firmware = Annotated[Path | None, typer.Option(help="file of MicroPython's firmware for the board")]
Sha256 = Annotated[str | None, typer.Option(help="the SHA-256 that the firmware's file must have")]
FlashMb = Annotated[int | None, typer.Option(help="ESP32: MB of flash, if not what the firmware says")]
Ota = Annotated[bool, typer.Option("--ota", help="ESP32: space for a second firmware, for updates over MQTT")]
_BYTECODE = "no machine code: for devices of several processors, or with MicroPython older than 1.23"
Bytecode = Annotated[bool, typer.Option("--bytecode", help=_BYTECODE)]
Romfs = Annotated[bool, typer.Option("--romfs", help="modules go to the ROM file system of the firmware")]
_PORT = "serial port of the board, /dev/ttyACM0 for example"
_FOUND = "the one that has a board"
PortOrNone = Annotated[str | None, typer.Option(help=_PORT)]
PortFound = Annotated[str | None, typer.Option(help=_PORT, show_default=_FOUND)]
PortOrDrive = Annotated[str | None, typer.Option(help=f"{_PORT}, or a Pico's mounted boot drive", show_default=_FOUND)]
Wait = Annotated[float, typer.Option(min=0, help="seconds to wait for the birth message; 0: not at all")]
WAIT_S = 90  # the default
SigningKey = Annotated[
    Path, typer.Option("--signing-key", help="file of the private key that signs releases, as `inflight keys` makes it")
]

# --- a board's configuration ---

_FOR_BOARD = "file of the configuration that the board gets"
BoardConfig = Annotated[Path | None, typer.Option(help=_FOR_BOARD)]
BoardConfigHere = Annotated[Path | None, typer.Option(help=_FOR_BOARD, show_default="config.json, if there is one")]
CONFIG = Path("config.json")  # the default, where a command needs one
_APP = "folder of your own modules"
App = Annotated[Path | None, typer.Option(help=_APP, show_default="app beside the configuration, or in this folder")]
AppHere = Annotated[Path | None, typer.Option(help=_APP, show_default="app in this folder")]


def _file(what: str) -> Any:
    return typer.Option(exists=True, dir_okay=False, help=what)


BoardCa = Annotated[Path | None, _file("file for tls_ca of the configuration: the CA's certificate, PEM or DER")]
BoardCert = Annotated[Path | None, _file("file for tls_cert: the device's certificate, PEM or DER")]
BoardKey = Annotated[Path | None, _file("file for tls_key: its private key, PEM or DER")]
BrokerHere = Annotated[
    str | None,
    typer.Option(help="host or host:port of the broker as this computer knows it", show_default="as the configuration"),
]

# --- the broker ---

_OF_DEVICE = "a device's configuration file: broker, user and root are in it"
Config = Annotated[Path, typer.Option(help=_OF_DEVICE)]
ConfigOrNone = Annotated[Path | None, typer.Option(help=_OF_DEVICE)]
Ca = Annotated[Path | None, _file("TLS: the CA's certificate, PEM or DER")]
Cert = Annotated[Path | None, _file("TLS: the certificate with which this computer connects, PEM")]
Key = Annotated[Path | None, _file("TLS: its private key, PEM")]
Broker = Annotated[str | None, typer.Option(help="host or host:port of the broker")]
Websocket = Annotated[str | None, typer.Option(help="path of a WebSocket at the broker (/mqtt): port 80, with TLS 443")]
User = Annotated[str | None, typer.Option(help="user name at the broker")]
PASSWORD = "INFLIGHT_PASSWORD"
PasswordFile = Annotated[Path | None, _file(f"file with the password; default: the environment variable {PASSWORD}")]
ProtocolLevel = Annotated[
    int | None, typer.Option(min=4, max=5, help="5: MQTT 5; 4: MQTT 3.1.1; default: 5 if the configuration has 5")
]

# --- the pipeline ---

Root = Annotated[str | None, typer.Option(help="first levels of the devices' topics", show_default="inflight")]
_DATA: dict[str, Any] = {"file_okay": False, "help": "folder of landing/ and tables/"}
Data = Annotated[Path, typer.Option("--data", **_DATA)]
DataOrNone = Annotated[Path | None, typer.Option("--data", **_DATA)]
DATA = Path("telemetry")  # the default
_LANDING = "of the landing files"
_IN_DATA = "landing in --data"
LandingFolder = Annotated[str, typer.Option(help=f"folder {_LANDING}")]
LandingFolderOrNone = Annotated[str | None, typer.Option(help=f"folder {_LANDING}", show_default=_IN_DATA)]
Landing = Annotated[str | None, typer.Option(help=f"folder or URI {_LANDING}", show_default=_IN_DATA)]


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


def every(what: str) -> Any:
    """The option --every; `what`: what happens so often."""
    return typer.Option(min=0.1, help=f"seconds between {what}")


EVERY_S = 10  # the default
Batches = Annotated[float, every("micro-batches")]
BATCHES_S = 4  # the default: with AGE_S a reading is in the tables after 5 s on average
Age = Annotated[float, typer.Option(min=0.1, help="seconds after which a landing file is finished")]
AGE_S = 3
Since = Annotated[
    str | None, typer.Option(help="only what was received then or later: 24h or 7d (ago), or 2026-03-01T08:00 (UTC)")
]
Until = Annotated[str | None, typer.Option(help="only what was received before that time, as --since")]
Grace = Annotated[
    float,
    typer.Option(min=0, help="seconds after which a missing number counts as lost, if no marker proves it earlier"),
]
GRACE_S = 3600  # the default
Retired = Annotated[
    list[str] | None, typer.Option(help="a collector that never returns: what its session had is lost; can be repeated")
]
Master = Annotated[str, typer.Option(help="Spark's master: local[*], spark://host:7077, yarn, k8s://...")]
MASTER = "local[*]"  # the default
Partitions = Annotated[int, typer.Option(min=1, help="shuffle partitions: two for each core")]
Conf = Annotated[list[str] | None, typer.Option(help="a Spark property, name=value; can be repeated")]
_METRICS = "serve metrics for Prometheus at this port of 127.0.0.1, or at host:port"
Metrics = Annotated[str | None, typer.Option(help=_METRICS)]
BothMetrics = Annotated[str | None, typer.Option(help=f"{_METRICS}: the collector's; the tables' at the next port")]


# --- options that go together ---


@dataclasses.dataclass(frozen=True, kw_only=True)
class TlsOptions:
    ca: Ca = None
    cert: Cert = None
    key: Key = None

    @property
    def tls(self) -> Tls:
        return Tls(self.ca, self.cert, self.key)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BoardTlsOptions(TlsOptions):
    ca: BoardCa = None
    cert: BoardCert = None
    key: BoardKey = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions(BoardTlsOptions):
    """What an image consists of, see images.board_image.make()."""

    board: Board
    firmware: Firmware = None
    sha256: Sha256 = None
    config: BoardConfigHere = None
    app: App = None
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class FlashOptions(ImageOptions):
    """ImageOptions for a board that is there, and can tell what it is."""

    board: BoardFound = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class BrokerOptions(TlsOptions):
    """Which broker, and as whom, see broker.find_broker(). With `config` the others go before it."""

    broker: Broker = None
    config: ConfigOrNone = None
    root: Root = None
    websocket: Websocket = None
    user: User = None
    password_file: PasswordFile = None
    protocol_level: ProtocolLevel = None

"""The broker of a configuration, or of the options of a command: its address and credentials."""

import json
import os
import ssl
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from inflight_tools.client import HEAD, ThreadClient
from inflight_tools.options import PASSWORD, BrokerOptions
from inflight_tools.output import WrongArgument
from inflight_tools.settings import CONFIG, NO_TLS, Tls, settings

_LONGEST = HEAD + 65_536  # bytes of a message: more than a device sends


@dataclass(frozen=True, repr=False)  # no repr: it would show the password
class Broker:
    """A device's broker, with credentials."""

    host: str
    port: int
    root: str
    device: str | None  # None: the board's own identity
    user: str | None
    password: str | None
    tls: ssl.SSLContext | None
    path: str | None = None  # of a WebSocket
    level: int = 4  # of the protocol

    @property
    def place(self) -> str:
        return f"{self.host}:{self.port}"


def broker_of(
    fields: dict[str, Any], override: str | None = None, tls: Tls = NO_TLS, path: str | None = None
) -> Broker:
    """The Broker of a checked configuration (a dict). `override`: its address for this computer, "host" or
    "host:port", if it differs; path: of a WebSocket. Raises ValueError."""
    if path and not path.startswith("/"):
        raise WrongArgument(f"--websocket {path}: a path begins with /")
    if tls.key and not tls.cert or tls.cert and not fields.get("tls_ca"):
        raise WrongArgument("--key goes with --cert, and --cert with --ca: without it there is no TLS")
    context = _context(tls) if fields.get("tls_ca") else None
    usual = (443 if context else 80) if path else (8883 if context else 1883)
    host, port = fields["host"], (not path and fields.get("port")) or usual
    if override:
        host, _, number = override.partition(":")
        if not host or number and not number.isdigit():
            raise WrongArgument(f"--broker {override}: write a host, or host:port")
        port = int(number) if number else port
    root = fields.get("root") or "inflight"
    return Broker(host, port, root, fields.get("device"), fields.get("user"), fields.get("password"), context, path)


def broker_of_settings(chosen: dict[str, bytes], override: str | None, tls: Tls) -> Broker:
    """broker_of() the configuration in `chosen`, a result of settings()."""
    return broker_of(json.loads(chosen[CONFIG]), override, tls)


def find_broker(at: BrokerOptions) -> tuple[Broker, int]:
    """(the Broker that the options name, without a device; the protocol level). Raises ValueError, OSError."""
    if at.config:
        fields = json.loads(settings(at.config, at.tls, dry=False)[CONFIG])
    elif at.broker:
        fields = {"host": "", "tls_ca": bool(at.ca)}
    else:
        raise WrongArgument("no broker: name one with --broker host or host:port, or with --config config.json")
    found = broker_of(fields, at.broker, at.tls, at.websocket)
    root = (at.root or found.root).strip("/")
    if not root or set(root) & set("+#\0"):
        raise WrongArgument(f"--root {root}: the first levels of the devices' topics, without + and #")
    if at.password_file:
        password = at.password_file.read_text(encoding="utf-8").rstrip("\r\n")
    else:
        password = os.environ.get(PASSWORD) or found.password
    user = at.user or found.user
    if password and not user:
        raise WrongArgument("a password, but no user: name it with --user")
    level = at.protocol_level or (5 if fields.get("protocol_level") == 5 else 4)
    return replace(found, root=root, user=user, password=password, device=None, level=level), level


def words_of(at: BrokerOptions, root: str) -> list[str]:
    """The options as words of another command, with this root, and files by their whole paths."""
    given = [(name, value) for name, value in (vars(at) | {"root": root}).items() if value is not None]
    return [
        word
        for name, value in given
        for word in (f"--{name.replace('_', '-')}", str(value.absolute() if isinstance(value, Path) else value))
    ]


def client_of(broker: Broker, purpose: str) -> ThreadClient:
    """A ThreadClient with the credentials of `broker`, for one session, not connected yet; `purpose` is in its id."""
    client = ThreadClient(
        CallbackAPIVersion.VERSION2,
        f"{purpose}-{uuid.uuid4().hex[:12]}",
        longest=_LONGEST,
        protocol=MQTTProtocolVersion.MQTTv5 if broker.level == 5 else MQTTProtocolVersion.MQTTv311,
        transport="websockets" if broker.path else "tcp",
    )
    if broker.path:
        client.ws_set_options(path=broker.path)
    if broker.user:
        client.username_pw_set(broker.user, broker.password)
    if broker.tls:
        client.tls_set_context(broker.tls)
    client.reconnect_delay_set(1, 8)
    return client


def _context(tls: Tls) -> ssl.SSLContext:
    if not tls.ca:
        raise ValueError("the configuration has tls_ca: name the CA's file with --ca <PEM or DER file>")
    data = tls.ca.read_bytes()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(cadata=data.decode() if data.startswith(b"-----") else data)
    except (ssl.SSLError, ValueError):
        raise ValueError(f"{tls.ca}: not a certificate in PEM or DER") from None
    if tls.cert:
        try:
            context.load_cert_chain(tls.cert, tls.key)
        except ssl.SSLError:
            raise ValueError(f"{tls.cert} and {tls.key}: needed as PEM for the connection from here") from None
    return context

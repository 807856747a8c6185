# Types of what `from inflight import ...` gives: for editors and type checkers, on CPython and for MicroPython
# projects. Nothing on a device reads it. Base tells what the arguments mean; a test holds both together.

import ssl
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias, overload

from .level5.authentication import Authentication as Authentication
from .level5.properties5 import ConnectProperties
from .level5.properties5 import connect_properties as connect_properties

NO_LOCAL: int
RETAIN_AS_PUBLISHED: int
RETAIN_IF_NEW: int
RETAIN_NEVER: int

__version__: str

_Data: TypeAlias = str | bytes | bytearray | memoryview
_Text: TypeAlias = str | bytes
_QoS: TypeAlias = Literal[0, 1, 2]
_Will: TypeAlias = tuple[_Text, _Data, _QoS, bool] | tuple[_Text, _Data, _QoS, bool, Properties]
_Handler: TypeAlias = Callable[[Message], None]

class OutboxFull(Exception): ...
class ProtocolError(Exception): ...

class ConnectRefused(OSError):
    code: int
    def __init__(self, code: int, reason: str = "") -> None: ...

class Disconnected(OSError):
    code: int
    reason: str
    reference: str
    def __init__(self, code: int, reason: str = "", reference: str = "") -> None: ...

class PublishRefused(OSError):
    code: int
    mid: int
    seq: int
    reason: str
    def __init__(self, code: int, mid: int, seq: int, reason: str = "") -> None: ...

class MessageDamaged(OSError):
    records: int
    mid: int | None
    seq: int | None
    def __init__(self, records: int, mid: int | None = None, seq: int | None = None) -> None: ...

class MessageSetAside(OSError):
    code: int
    kept: bool
    mid: int
    seq: int
    topic: str
    size: int
    qos: int
    def __init__(self, code: int, kept: bool, mid: int, seq: int, topic: str, size: int, qos: int) -> None: ...

class Properties:
    block: bytes
    expiry: int

def properties(
    expiry: int | None = None,
    content_type: _Text | None = None,
    response_topic: _Text | None = None,
    correlation: bytes | None = None,
    text: bool = False,
    user: Iterable[tuple[_Text, _Text]] = (),
    will_delay: int | None = None,
) -> Properties: ...

class RamFlash:
    def __init__(self, blocks: int = 4, block_size: int = 1024) -> None: ...
    def readblocks(self, block: int, buf: Any, offset: int = 0) -> None: ...
    def program(self, at: int, buf: Any, off: int, n: int) -> None: ...
    def ioctl(self, op: int, arg: int) -> int: ...
    def close(self) -> None: ...

class FileFlash:
    def __init__(self, path: str, blocks: int = 16, block_size: int = 4096) -> None: ...
    def readblocks(self, block: int, buf: Any, offset: int = 0) -> None: ...
    def program(self, at: int, buf: Any, off: int, n: int) -> None: ...
    def ioctl(self, op: int, arg: int) -> int: ...
    def close(self) -> None: ...

class CardFlash:
    def __init__(self, card: Any, first: int, n: int = 256, size: int = 4096) -> None: ...
    def readblocks(self, block: int, buf: Any, offset: int = 0) -> None: ...
    def program(self, at: int, buf: Any, off: int, n: int) -> None: ...
    def ioctl(self, op: int, arg: int) -> int: ...

class JoinedFlash:
    def __init__(self, device: Any, k: int = 2) -> None: ...
    def readblocks(self, block: int, buf: Any, offset: int = 0) -> None: ...
    def writeblocks(self, block: int, buf: Any, offset: int = 0) -> None: ...
    def ioctl(self, op: int, arg: int) -> int: ...

def erase(device: Any) -> None: ...
def copy_journal(journal: Journal, device: Any) -> Journal: ...

class Journal:
    size: int
    largest: int
    limit: int
    used: int
    live: int
    damaged: int
    skipped: int
    erases: int
    epoch: int
    next_seq: int
    failed: bool
    def __init__(self, device: Any) -> None: ...
    def recover(self) -> None: ...
    def cost(self, n: int) -> int: ...

class Message:
    @property
    def topic(self) -> str: ...
    @property
    def payload(self) -> bytes: ...
    @property
    def view(self) -> memoryview: ...
    @property
    def qos(self) -> int: ...
    @property
    def mid(self) -> int: ...
    @property
    def retain(self) -> bool: ...
    @property
    def dup(self) -> bool: ...
    @property
    def redelivered(self) -> bool: ...
    @property
    def offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    # At level 5:
    @property
    def expiry(self) -> int | None: ...
    @property
    def content_type(self) -> str | None: ...
    @property
    def response_topic(self) -> str | None: ...
    @property
    def correlation(self) -> bytes | None: ...
    @property
    def text(self) -> bool: ...
    @property
    def user(self) -> list[tuple[str, str]]: ...
    def reply(self, payload: _Data = b"", qos: _QoS = 0, retain: bool = False) -> Any: ...

class _Session:
    response_information: str  # at level 5

class _Base:
    session: _Session
    on_message: _Handler | None
    on_connect: Callable[[bool], None] | None
    on_disconnect: Callable[[BaseException | None], None] | None
    on_complete: Callable[[int], None] | None
    on_error: Callable[[BaseException], None]
    online: bool
    def __init__(
        self,
        host: str,
        client_id: str = "",
        journal: Journal | None = None,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
        path: str | None = None,
        headers: dict[str, str] | None = None,
        user: _Text | None = None,
        password: _Data | None = None,
        will: _Will | None = None,
        keepalive: int = 60,
        clean_session: bool = False,
        protocol_level: Literal[3, 4, 5] = 4,
        session_expiry: int | None = None,
        slept: int = 0,
        auth: Authentication | None = None,
        aliases: int = 0,
        stall_ms: int | None = None,
        connect_properties: ConnectProperties | None = None,
        buffer: bytearray | None = None,
        max_inflight: int = 8,
        receive_maximum: int = 32,
        when_full: Literal["oldest", "newest"] | None = None,
        timeout_ms: int = 10_000,
        retry_ms: int | None = None,
        backoff_ms: tuple[int, int] = (1_000, 60_000),
        reconnect: bool = True,
        max_redeliveries: int = 0,
        on_message: _Handler | None = None,
        on_connect: Callable[[bool], None] | None = None,
        on_disconnect: Callable[[BaseException | None], None] | None = None,
        on_complete: Callable[[int], None] | None = None,
        on_error: Callable[[BaseException], None] | None = None,
    ) -> None: ...
    @property
    def connected(self) -> bool: ...
    @property
    def pending(self) -> int: ...
    def is_pending(self, mid: int) -> bool: ...
    def pending_messages(self) -> Iterator[tuple[int, int, str, int, int, str]]: ...
    def retry(self) -> None: ...
    def counters(self) -> dict[str, int]: ...

class Client(_Base):
    def __enter__(self) -> Client: ...
    def __exit__(self, *_: object) -> None: ...
    def connect(self) -> None: ...
    def disconnect(self, will: bool = False) -> None: ...
    def run_for(self, ms: int) -> None: ...
    def drain(self, ms: int | None = None, mid: int = 0) -> bool: ...
    def discard(self, mid: int, seq: int = -1) -> bool: ...
    def publish(
        self,
        topic: _Text,
        payload: _Data = b"",
        qos: _QoS = 0,
        retain: bool = False,
        properties: Properties | None = None,
    ) -> int: ...
    @overload
    def subscribe(
        self, filters: _Text, qos: _QoS = 0, handler: _Handler | None = None, stream: bool = False
    ) -> int | None: ...
    @overload
    def subscribe(
        self,
        filters: Iterable[tuple[_Text, _QoS]],
        qos: _QoS = 0,
        handler: _Handler | None = None,
        stream: bool = False,
    ) -> list[int] | None: ...
    def unsubscribe(self, *filters: _Text | list[_Text] | tuple[_Text, ...]) -> None: ...
    def ping(self) -> int: ...

class AsyncClient(_Base):
    async def connect(self) -> None: ...
    async def disconnect(self, will: bool = False) -> None: ...
    async def __aenter__(self) -> AsyncClient: ...
    async def __aexit__(self, *_: object) -> None: ...
    def __aiter__(self) -> AsyncClient: ...
    def __anext__(self) -> Awaitable[Message]: ...
    async def drain(self, ms: int | None = None, mid: int = 0) -> bool: ...
    async def discard(self, mid: int, seq: int = -1) -> bool: ...
    async def publish(
        self,
        topic: _Text,
        payload: _Data = b"",
        qos: _QoS = 0,
        retain: bool = False,
        properties: Properties | None = None,
    ) -> int: ...
    @overload
    async def subscribe(
        self, filters: _Text, qos: _QoS = 0, handler: _Handler | None = None, stream: bool = False
    ) -> int | None: ...
    @overload
    async def subscribe(
        self,
        filters: Iterable[tuple[_Text, _QoS]],
        qos: _QoS = 0,
        handler: _Handler | None = None,
        stream: bool = False,
    ) -> list[int] | None: ...
    async def unsubscribe(self, *filters: _Text | list[_Text] | tuple[_Text, ...]) -> None: ...
    async def ping(self) -> int: ...

from collections.abc import Iterable

class ConnectProperties:
    data: bytes
    max_packet: int
    reasons: bool

def connect_properties(
    max_packet: int | None = None,
    reasons: bool = False,
    response_information: bool = False,
    user: Iterable[tuple[str, str]] = (),
) -> ConnectProperties: ...

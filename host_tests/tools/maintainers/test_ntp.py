"""The NTP server that emulated boards set their clock by."""

import socket
import struct
import time

import pytest

from tools.peers import ntp

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")


def test_it_tells_the_time_until_it_is_stopped():
    with ntp.Server(port=0) as server, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.settimeout(240)
        before = int(time.time())
        client.sendto(b"\x1b" + bytes(47), server.address)
        seconds, _ = struct.unpack_from("!II", client.recv(100), 40)
    assert before <= seconds - 2_208_988_800 <= time.time()

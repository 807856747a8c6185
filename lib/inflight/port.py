# What differs between MicroPython and CPython stands here, and what CPython lacks in cpython.

import sys

if sys.implementation.name == "micropython":
    from select import poll as poller
    from sys import print_exception
    from time import sleep_ms, ticks_add, ticks_diff, ticks_ms

    from micropython import const

    def stream(sock, tls, host):
        """A connected socket made non-blocking, through `tls` if given. The handshake happens in
        the first writes, so that a silent peer cannot hold it up for ever."""
        sock.setblocking(False)
        if tls:
            sock = tls.wrap_socket(sock, server_hostname=host, do_handshake_on_connect=False)
        return sock

else:
    from .cpython import const, poller, print_exception, sleep_ms, stream, ticks_add, ticks_diff, ticks_ms

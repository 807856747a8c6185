"""What SIGTERM, Ctrl-C and a closed terminal do while a command runs."""

import contextlib
import queue
import signal
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def on_stop(call: Callable[[], object]) -> Iterator[None]:
    """At SIGTERM and SIGINT, and at SIGHUP, when the terminal is closed, unless that is ignored (nohup), call() runs.
    Behind the block signals do what they did before it: who runs a command within a program, and each process that
    this one begins later, can be ended."""
    numbers = [signal.SIGTERM, signal.SIGINT]
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, lambda *_: call()) for number in numbers}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def stop_event() -> Iterator[threading.Event]:
    """An Event that these signals set, see on_stop()."""
    stopping = threading.Event()
    # Event.set() would wait for a lock for ever if a signal came while this thread is within wait(): put() takes none.
    signals: queue.SimpleQueue = queue.SimpleQueue()

    def stop():
        signals.get()
        stopping.set()

    thread = threading.Thread(target=stop, daemon=True)
    thread.start()
    try:
        with on_stop(lambda: signals.put(None)):
            yield stopping
    finally:
        signals.put(None)
        thread.join()

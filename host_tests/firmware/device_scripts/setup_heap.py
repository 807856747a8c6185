# Runs the set-up, and prints how many bytes of heap it holds more than the board alone, whenever that grows: in each
# step of the loop, when a page is about to be sent, and with each piece of it.

import gc
import select

import board

gc.collect()
before = gc.mem_alloc()

import setup  # noqa: E402
import setup_board  # noqa: E402
import setup_server  # noqa: E402

most = 0
head = setup_server.head


def measure():
    global most
    gc.collect()
    held = gc.mem_alloc() - before
    if held > most:
        most = held
        print("heap", held)


def measured(*response):
    measure()
    return head(*response)


class Poll:
    """select.poll, once in each step of the loop."""

    def __init__(self):
        self._poll = select.poll()
        self.register = self._poll.register
        self.unregister = self._poll.unregister
        self.modify = self._poll.modify

    def poll(self, ms):
        measure()
        return self._poll.poll(ms)


class Select:
    poll = Poll
    POLLIN = select.POLLIN
    POLLOUT = select.POLLOUT


def counted(pieces):
    for piece in pieces:
        measure()
        yield piece


respond = setup.Setup.respond


def responded(*request):
    status, location, pieces = respond(*request)
    return status, location, counted(pieces)


setup.Setup.respond = responded
setup.select = Select
setup_server.head = measured
setup.run(board, setup_board)

# Runs the set-up, and prints how many bytes of heap it holds more than the board alone, whenever that grows.

import gc
import select

import board

gc.collect()
before = gc.mem_alloc()

import setup  # noqa: E402
import setup_board  # noqa: E402


class Poll:
    """select.poll, once in each step of the loop."""

    most = 0

    def __init__(self):
        self._poll = select.poll()
        self.register = self._poll.register
        self.unregister = self._poll.unregister
        self.modify = self._poll.modify

    def poll(self, ms):
        gc.collect()
        held = gc.mem_alloc() - before
        if held > Poll.most:
            Poll.most = held
            print("heap", held)
        return self._poll.poll(ms)


class Select:
    poll = Poll
    POLLIN = select.POLLIN
    POLLOUT = select.POLLOUT


setup.select = Select
setup.run(board, setup_board)

"""Work for several processes."""

import multiprocessing
from contextlib import contextmanager
from functools import partial


@contextmanager
def workers(jobs, prepare, chunk=1):
    """Yields what works as map() does: by `jobs` processes that have called prepare() and take `chunk` items at a time;
    with one, by this process. They are begun anew, not forked: the copy of a process with threads may wait for ever."""
    if jobs == 1:
        prepare()
        yield map
        return
    with multiprocessing.get_context("spawn").Pool(jobs, prepare) as pool:
        yield partial(pool.imap, chunksize=chunk)

"""Copies of a frozen board, each in a process of its own: bringing up Wi-Fi takes long, forking does not."""

import asyncio
import os
import pickle
import select
import signal
import time
import traceback

_FREE_STACK = 128  # bytes: what lies below the stack is other data, which nothing protects


def staged(work, board, start):
    """Runs coroutine work(board) while the board runs, then freezes it. `start` starts the board. Returns the result
    of work. RuntimeError if the board's stack was nearly used up."""

    async def stage():
        start()
        try:
            result = await work(board)
        finally:
            await board.freeze()
        if board.free_stack() < _FREE_STACK:
            raise RuntimeError(f"{board.free_stack()} bytes of the board's stack were never used")
        return result

    return asyncio.run(stage())


def forked(work, board, seconds, start=None):
    """Runs coroutine work(board) with a copy of the frozen board, in a child process. `start` starts it, default:
    board.thaw. Returns the result of work; RuntimeError with the child's traceback if it raises, TimeoutError after so
    many seconds."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.setsid()  # what it starts shall end with it
        os.close(read)
        _answer(work, board, start or board.thaw, write)
    os.close(write)
    try:
        answer = _listen(read, seconds)
    finally:
        os.close(read)
        os.killpg(child, signal.SIGKILL)  # it has said all it had to say
        os.waitpid(child, 0)
    if answer is None:
        raise TimeoutError(f"a copy of the board did not end within {seconds} s")
    result, problem = pickle.loads(answer) if answer else (None, "the copy died without a word")
    if problem:
        raise RuntimeError(problem)
    return result


def _answer(work, board, start, pipe):
    try:
        try:
            answer: tuple = staged(work, board, start), None
        except BaseException:
            answer = None, traceback.format_exc()
        with os.fdopen(pipe, "wb") as f:
            f.write(pickle.dumps(answer))
    finally:
        os._exit(0)  # nothing of the parent's may be cleaned up here


def _listen(pipe, seconds):
    end = time.monotonic() + seconds
    parts = []
    while select.select([pipe], [], [], max(0, end - time.monotonic()))[0]:
        part = os.read(pipe, 1 << 20)
        if not part:
            return b"".join(parts)
        parts.append(part)
    return None

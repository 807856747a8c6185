"""Copies of a frozen board, each in a process of its own: bringing up Wi-Fi takes long, forking does not."""

import asyncio
import multiprocessing
import os
import signal
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
    context = multiprocessing.get_context("fork")
    answers, answer = context.Pipe(duplex=False)
    child = context.Process(target=_answer, args=(work, board, start or board.thaw, answer))
    child.start()
    answer.close()
    try:
        if not answers.poll(seconds):
            raise TimeoutError(f"a copy of the board did not end within {seconds} s")
        result, problem = answers.recv()
    except EOFError:
        result, problem = None, "the copy died without a word"
    finally:
        os.killpg(child.pid, signal.SIGKILL)  # it has said all it had to say
        child.join()
    if problem:
        raise RuntimeError(problem)
    return result


def _answer(work, board, start, answer):
    os.setsid()  # what it starts shall end with it
    try:
        answer.send((staged(work, board, start), None))
    except BaseException:
        answer.send((None, traceback.format_exc()))

"""What happens at one line of the library, as a handler of signals could make it happen."""

import sys


class AtLine:
    """Calls `call`, if it is not None, once, at line `k` of lib/inflight that runs from now on; it may raise. left:
    lines until then. counts: tells of a code object whether its lines count. event: "opcode" counts bytecodes."""

    def __init__(self, k, call=None, counts=lambda code: True, event="line"):
        self.left, self._do, self._counts, self._event = k, call, counts, event

    def __enter__(self):
        sys.settrace(self._call)
        return self

    def __exit__(self, *_):
        sys.settrace(None)

    def _call(self, frame, event, arg):
        code = frame.f_code
        frame.f_trace_opcodes = self._event == "opcode"
        return self._line if "/lib/inflight/" in code.co_filename and self._counts(code) else None

    def _line(self, frame, event, arg):
        if event == self._event:
            self.left -= 1
            if self.left == -1 and self._do:
                sys.settrace(None)
                self._do()
        return self._line

"""Snapshots of running objects: of everything that can change and that a root refers to. restore() puts the contents
back into the same objects, so that views of buffers and bound methods stay what they are."""

import marshal
from array import array
from hashlib import blake2b
from types import BuiltinFunctionType, FunctionType, MethodType

_PLAIN = {int, str, bytes, bool, float, type(None)}
_NAMED = {type, FunctionType, BuiltinFunctionType}


class Snapshot:
    """`key` is the same for two states if and only if they are equal. forms: {class: a function that makes of an
    object's fields those on which its future depends}."""

    def __init__(self, root, forms):
        self._forms = forms
        self._numbers = {}  # id of an object: its place in the order of the walk
        self._saved = []  # (object, its contents)
        self._found = []  # contents of the objects, as plain values
        self._others = []  # fields that do not count: what they refer to is saved all the same
        self._found.append(self._value(root))
        self.key = blake2b(marshal.dumps(self._found, 2), digest_size=12).digest()
        self._values(self._others)
        del self._found, self._others, self._numbers

    def restore(self):
        for thing, contents in self._saved:
            if isinstance(contents, bytes):
                memoryview(thing).cast("B")[:] = contents
            elif isinstance(contents, list):
                thing[:] = contents
            else:
                fields = thing if isinstance(thing, (dict, set)) else thing.__dict__
                fields.clear()
                fields.update(contents)

    def _values(self, things):
        return [thing if type(thing) in _PLAIN else self._value(thing) for thing in things]

    def _value(self, thing):
        number = self._numbers.get(id(thing))
        if number is not None:
            return "object", number
        kind = type(thing)
        if isinstance(thing, tuple):
            return tuple(self._values(thing))
        if kind in _NAMED:
            return thing.__name__
        if kind is MethodType:
            return thing.__name__, self._value(thing.__self__)
        if kind is memoryview:
            return len(thing), self._value(thing.obj)
        if isinstance(thing, BaseException):
            return kind.__name__, str(thing)
        number = self._numbers[id(thing)] = len(self._numbers)
        self._found.append((number, self._contents(thing, kind)))
        return "object", number

    def _contents(self, thing, kind):
        if isinstance(thing, (bytearray, array)):
            contents = bytes(thing)
            self._saved.append((thing, contents))
            return contents
        if kind in (list, dict, set):
            self._saved.append((thing, thing.copy()))
            if kind is dict:
                return list(thing), self._values(thing.values())
            return self._values(thing) if kind is list else sorted(thing)
        if not hasattr(thing, "__dict__"):  # a lock, a generator
            return kind.__name__
        fields = thing.__dict__
        self._saved.append((thing, fields.copy()))
        if kind in self._forms:
            self._others += fields.values()
            fields = self._forms[kind](fields)
        names = sorted(fields)
        return kind.__name__, names, self._values([fields[name] for name in names])

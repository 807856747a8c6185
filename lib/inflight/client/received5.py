# Messages of level 5 for the consumers of the asyncio client. Loaded with the first consumer.

from ..level5.cursor import IN_PUBLISH, Cursor
from .inbox import Received
from .message5 import Fields


class Received5(Fields, Received):
    """A Received of level 5."""

    def __init__(self, record, client):
        super().__init__(record)
        self._client = client

    def _body(self, record, i):
        behind = Cursor(record).start(i, len(record), IN_PUBLISH)
        self._block = bytes(record[i:behind])
        return behind

    def _cursor(self):
        cursor = Cursor(self._block)
        cursor.start(0, len(self._block), IN_PUBLISH)
        return cursor

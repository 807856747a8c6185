"""A console of tables."""

import urllib.parse

from host_tests.tools.fleet.console.asked import Asked
from host_tests.tools.fleet.tables import AT
from inflight_tools.fleet.console.live import Live
from inflight_tools.fleet.console.pages import of_tables


class Served(Asked):
    """One with the pages of tables. `now`: the time that it knows, in s since 1970; a test moves it on, and calls
    look() and answer() of `live`. live: that of another one, whose time counts."""

    def __init__(self, folder, access, token=None, beside=None, live=None):
        self.now, self.folder, self.live = AT + 70.0, folder, live
        if not live:
            self.live = Live(str(folder / "landing"), str(folder / "tables"), "inflight", clock=lambda: self.now)
            self.live.look()
        super().__init__(access=access, **of_tables(self.live, token, beside))

    def device(self, name, **query):
        """The answer that a viewer has when all of the device was read."""
        path = "/device?" + urllib.parse.urlencode({"name": name, **query})
        if self.get(path)[0] == 200:
            self.live.answer()
        return self.get(path)

"""A console of tables."""

from host_tests.tools.fleet.console.asked import Asked
from host_tests.tools.fleet.tables import AT
from inflight_tools.fleet.console.live import Live
from inflight_tools.fleet.console.pages import of_tables


class Served(Asked):
    """One with the pages of tables. `now`: the time that it knows, in s since 1970; a test moves it on."""

    def __init__(self, folder, access):
        self.now, self.folder = AT + 70.0, folder
        live = Live(str(folder / "landing"), str(folder / "tables"), "inflight", clock=lambda: self.now)
        super().__init__(of_tables(live), access)

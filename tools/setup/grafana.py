"""The types of Grafana's dashboards, and the compiler that checks against them, with the system's npm."""

from inflight_tools.cache import cache_dir
from tools.setup import npm
from tools.setup.common import CHECKOUT


def command():
    """The command line to which files of dashboards are added. Raises SetupError without npm or a network."""
    return npm.command(CHECKOUT / "tools/grafana", cache_dir() / "grafana")


def ensure(_installer):
    """Returns True: it may have installed something."""
    command()
    return True

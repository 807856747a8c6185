"""The types of Grafana's dashboards, and the compiler that checks against them, with the system's npm."""

from inflight_tools.cache import cache_dir

from . import npm
from .common import CHECKOUT


def command():
    """The command line to which files of dashboards are added. Raises SetupError without npm or a network."""
    return npm.command(CHECKOUT / "dev/grafana", cache_dir() / "grafana")


def ensure(_installer):
    """Returns True: it may have installed something."""
    command()
    return True

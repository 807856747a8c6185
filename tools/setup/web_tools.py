"""esp-web-tools, for the test of the page that installs boards."""

from inflight_tools.installer.web_tools import cached, web_tools
from tools.setup.common import say


def ensure(_installer):
    """Returns True if there was something to do. Without npm or a network the test is skipped."""
    if cached().exists():
        return False
    try:
        web_tools()
    except ValueError as e:
        say(f"the page that installs boards is not tested: {e}")
    return True

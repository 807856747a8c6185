"""What tests of pages need beside a browser: esp-web-tools, for the page that installs boards, and axe-core, which
looks for barriers."""

from pathlib import Path

from inflight_tools.cache import cache_dir
from inflight_tools.installer.web_tools import cached, web_tools
from tools.setup import npm
from tools.setup.common import SetupError, say

_AXE = Path(__file__).with_name("axe")


def axe():
    """Where the script of axe-core is, or will be."""
    return npm.folder(_AXE, cache_dir() / "web") / "node_modules/axe-core/axe.min.js"


def ensure(_installer):
    """Returns True if there was something to do. Without npm or a network the tests are skipped."""
    if cached().exists() and axe().exists():
        return False
    try:
        if not cached().exists():
            web_tools()
        npm.command(_AXE, cache_dir() / "web")
    except (ValueError, SetupError) as e:
        say(f"pages are not tested: {e}")
    return True

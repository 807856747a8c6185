"""`python -m inflight_tools` is the command `inflight`."""

from inflight_tools.cli import main

main()

"""What to install where packages are missing. On PyPI, `inflight` is a stranger's project: no message may name it."""


def not_installed(what: str | None, *extras: str) -> str:
    """The message that `what` is missing, and how to install it: it is in these extras of pyproject.toml."""
    ways = " or ".join(f"pip install '.[{extra}]'" for extra in extras)
    return f"{what} is not installed: in the checkout, {ways}"

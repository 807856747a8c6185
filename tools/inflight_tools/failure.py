"""How commands say that they have failed."""

from rich.text import Text

from inflight_tools.visible import visible


def reason(error):
    """What went wrong, without the number of the error: "config.json: Permission denied"."""
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error)


def print_failure(console, text):
    """Prints why to a rich Console. Lines of `text`, which end with a line feed alone, may come from devices and
    brokers."""
    shown = "\n".join(map(visible, text.rstrip("\n").split("\n")))
    console.print("[bold red]FAILED[/bold red]:", Text(shown), highlight=False, soft_wrap=True)

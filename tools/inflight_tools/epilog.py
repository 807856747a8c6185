"""The text below the help of every command."""


def epilog(example, more=""):
    """more: a further exit status, and what it means."""
    return f"Example: inflight {example}\n\nExit status: 0 done, 1 failed, 2 wrong arguments{more and ', ' + more}."

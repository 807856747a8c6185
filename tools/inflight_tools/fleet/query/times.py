"""Times as users give them."""

import datetime
import re

UNITS = {"m": 60, "h": 3600, "d": 86_400}


def when(option, text, now):
    """`text` in s since 1970; None stays None: "90m", "24h" or "7d" before `now`; or a date, or date and time, of ISO
    8601, in UTC without a zone. Raises ValueError."""
    if text is None:
        return None
    if ago := re.fullmatch(r"(\d{1,6})([mhd])", text):
        return now - int(ago[1]) * UNITS[ago[2]]
    try:
        found = datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError(f"{option} {text}: 24h or 7d (ago), or a time in UTC, as in 2026-03-01T08:00") from None
    return (found if found.tzinfo else found.replace(tzinfo=datetime.timezone.utc)).timestamp()


def span(since, until, now):
    """(since, until) of the options --since and --until, see when(). Raises ValueError."""
    found = when("--since", since, now), when("--until", until, now)
    if None not in found and found[0] >= found[1]:
        raise ValueError(f"--since {since} is not before --until {until}")
    return found

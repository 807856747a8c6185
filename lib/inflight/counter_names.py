# The names of the counters, in the order of their indices in counters. Loaded when somebody asks for them.

NAMES = (
    "accepted sent resent completed dropped received duplicates redelivered unknown_acks pings connects outages"
    " refused protocol_errors handler_errors too_long unhandled damaged set_aside"
    # of level 5:
    " rejected unheard lowered republished orphaned taken_over held expired stalls abandoned"
)


def by_name(count):
    """{name: value}"""
    return dict(zip(NAMES.split(), count))

"""Statements of the standard that some brokers do not fulfil."""


class Traits:
    """True: as the standard says. A subclass sets False where its broker deviates, with the reason. The tests in
    host_tests/brokers show each deviation; README.md there says how the client handles it."""

    level_3 = True  # accepts MQTT 3.1
    level_5 = True  # accepts MQTT 5
    qos_2 = True  # accepts and delivers QoS 2
    keeps_qos = True  # delivers at the QoS of the message, if the subscription's is not lower
    ordered = True  # delivers in the order of publishing
    resumes_in_order = True  # delivers unacknowledged messages first on the next connection
    replaces_at_once = True  # accepts a CONNECT while it still ends the last session of that client id
    prompt = True  # delivers to a connected subscriber at once
    answers_pubrel = True  # also for an unknown Message ID
    window = True  # limits the number of messages in flight to a client
    queues = True  # stores messages for an offline session
    clean_wipes = True  # clean session 1 ends the old session
    takes_over = True  # a second client with the same client id disconnects the first one
    keep_alive = True  # disconnects a silent client
    shared = True  # has shared subscriptions
    saves_clean_start = True  # keeps a session that began with Clean Start after an orderly stop
    survives_restart = True  # keeps sessions, messages and retained messages after an orderly stop
    survives_kill = True  # and after SIGKILL
    survives_early_kill = True  # also if that follows SUBACK at once

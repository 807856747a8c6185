"""What differs from broker to broker: what the standard asks, and one or the other breaks."""


class Traits:
    """True: as the standard says. A subclass sets to False what its broker does otherwise, beside the reason;
    host_tests/brokers shows each, and its README.md tells how the client copes."""

    level_3 = True  # takes MQTT 3.1
    qos_2 = True  # grants, takes and delivers QoS 2
    keeps_qos = True  # delivers at the QoS of the message, if the subscription's is not lower
    ordered = True  # delivers in the order of publishing
    resumes_in_order = True  # what a connection left unacknowledged comes first on the next one
    prompt = True  # delivers to a connected subscriber without waiting for its next connection
    answers_pubrel = True  # also for a Message ID that it does not hold
    window = True  # bounds what it has in flight towards a client
    queues = True  # keeps messages for a session that is away
    clean_wipes = True  # clean session 1 ends the old session
    takes_over = True  # a second client of the same id ends the first one
    keep_alive = True  # declares a silent client dead
    survives_restart = True  # sessions, messages and retained ones outlive an orderly end
    survives_kill = True  # and SIGKILL

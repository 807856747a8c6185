# Options of a subscription at level 5, to be combined with its QoS: client.subscribe("log/#", 1 | NO_LOCAL).

NO_LOCAL = 4  # what this client publishes does not come back [MQTT5-3.8.3-3]
RETAIN_AS_PUBLISHED = 8  # message.retain is what the publisher said; otherwise: it was there before the subscription
RETAIN_IF_NEW = 0x10  # retained messages come only if there was no such subscription before,
RETAIN_NEVER = 0x20  # or never

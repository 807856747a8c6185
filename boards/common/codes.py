# What every board says in the same words: the state of its Wi-Fi, and why it started.
# They are text because they travel in health messages as they are.

# wifi_connect(), wifi_status()
IDLE = "idle"  # not asked to connect yet, or disconnected
CONNECTING = "connecting"
ONLINE = "online"  # has an address
NO_AP = "no access point"
WRONG_KEY = "wrong key"
NO_ADDRESS = "no address"
FAILED = "failed"  # for another reason

# reset_cause()
POWER_ON = "power-on"
POWER_CUT = "power-cut"  # stopped without warning: brown-out, SIGKILL
RESET = "reset"  # the button, or whoever flashed it
WATCHDOG = "watchdog"
DEEP_SLEEP = "deep-sleep"
SOFT = "soft"  # the firmware asked for it

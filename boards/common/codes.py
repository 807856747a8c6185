# Codes shared by all boards: the state of the network, and the reset cause.
# Strings, since health messages contain them.

# a network's status()
IDLE = "idle"  # not connecting yet, or disconnected
CONNECTING = "connecting"
ONLINE = "online"  # has an address
NO_AP = "no access point"
WRONG_KEY = "wrong key"
NO_ADDRESS = "no address"
NO_CABLE = "no cable"
FAILED = "failed"  # for another reason

# reset_cause()
POWER_ON = "power-on"
POWER_CUT = "power-cut"  # stopped without warning, a process by SIGKILL
RESET = "reset"  # the reset button, or a flashing tool
WATCHDOG = "watchdog"
BROWN_OUT = "brown-out"  # the supply was too low; some chips say power-on instead
PANIC = "panic"  # the interpreter crashed; only an ESP32 knows it, others hang until the watchdog resets them
DEEP_SLEEP = "deep-sleep"
SOFT = "soft"  # requested by the firmware

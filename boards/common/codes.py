# Codes shared by all boards: the state of Wi-Fi, and the reset cause.
# Strings, since health messages contain them.

# wifi_connect(), wifi_status()
IDLE = "idle"  # not connecting yet, or disconnected
CONNECTING = "connecting"
ONLINE = "online"  # has an address
NO_AP = "no access point"
WRONG_KEY = "wrong key"
NO_ADDRESS = "no address"
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

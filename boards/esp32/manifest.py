# Freezes library, board and firmware: in MicroPython's ports/esp32,
#   make BOARD=ESP32_GENERIC FROZEN_MANIFEST=<this file>
# Only the configuration (and a CA) is left to put on the file system. For a BOARD that brings a manifest.py of its own,
# include that one in place of the port's.

include("$(PORT_DIR)/boards/manifest.py")
include("../manifest.py", board="esp32")

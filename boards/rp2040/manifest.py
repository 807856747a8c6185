# Freezes library, board and firmware: in MicroPython's ports/rp2,
#   make BOARD=RPI_PICO_W FROZEN_MANIFEST=<this file>      (or BOARD=RPI_PICO2_W)
# Only the configuration (and a CA) is left to put on the file system.

include("$(BOARD_DIR)/manifest.py")
include("../manifest.py", board="rp2040")

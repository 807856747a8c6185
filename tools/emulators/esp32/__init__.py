"""An emulated ESP32, or ESP32-C3, that runs the real, unmodified MicroPython firmware.

The emulator is a QEMU that the person has: emulator.py finds it and says what it lacks. This package starts it, cuts
its power, resets it, and lends its serial line to esptool and mpremote."""

"""An emulated Pico W that runs the real, unmodified MicroPython firmware.

rp2040py emulates the chip and its Wi-Fi. This package mends what its version 0.3.6 has wrong, keeps every packet
on this machine, writes and reads the flash, cuts the power, and copies a running board by forking the process."""

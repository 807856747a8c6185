# Starts the firmware with these modules in the place of hardware: compiled modules call `machine` umachine, which is
# MicroPython's own.

import sys

import machine

sys.modules["umachine"] = machine
__import__("main")

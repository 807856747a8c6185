"""An emulated Pico W that runs MicroPython's unmodified firmware. rp2040py emulates the chip and its Wi-Fi. This
package fixes defects of its version 0.3.6, keeps every packet on this machine, reads and writes the flash, cuts the
power, and copies a running board."""

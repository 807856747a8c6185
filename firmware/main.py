# MicroPython starts this file, as source; the application is in /lib, or frozen.

from start import main

main()

# MicroPython starts this file, as source; the application lies in /lib, or is frozen.

from start import main

main()

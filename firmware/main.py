# MicroPython starts this file, as source; the application is in a slot (see launch), in /lib, or frozen. No name is
# kept, so that the memory of launch is free.

__import__("launch").main()
__import__("start").main()

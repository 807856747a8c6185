"""Images for bare boards: firmware of MicroPython, a place for the journal, and a file system with the application."""

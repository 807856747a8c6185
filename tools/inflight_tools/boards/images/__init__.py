"""Images for bare boards: MicroPython's firmware, space for the journal, and a file system with the application."""

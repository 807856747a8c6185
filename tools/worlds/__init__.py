"""`make worlds`: explores all states of a small world. __main__ tells what that is."""

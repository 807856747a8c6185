"""What deploy and monitor share: the board on its cable, its console, and what the broker hears of it."""

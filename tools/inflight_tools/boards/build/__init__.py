"""What a board runs, made of the sources: smaller, with other names, compiled."""

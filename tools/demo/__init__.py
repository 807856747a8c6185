"""A fleet of virtual sensors on this machine, and what befalls it."""

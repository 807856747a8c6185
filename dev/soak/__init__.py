"""Bad networks, many devices, long hours: what `make soak` is made of."""

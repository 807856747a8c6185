"""The soak test: many devices in bad networks, for hours of virtual time."""

"""From MQTT to landing files: what is acknowledged to the broker stands on disk."""

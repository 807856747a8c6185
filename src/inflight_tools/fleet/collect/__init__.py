"""From MQTT to landing files: a message is acknowledged to the broker when it is on disk."""

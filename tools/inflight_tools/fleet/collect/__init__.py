"""From MQTT to landing files. A message is acknowledged after it is on disk."""

"""From MQTT to tables that prove what was lost: nothing."""

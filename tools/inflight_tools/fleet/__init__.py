"""Fleets: from MQTT to landing files, tables and a report that proves what was lost: nothing."""

"""Where one message of one device is. It reads the tables without Spark."""

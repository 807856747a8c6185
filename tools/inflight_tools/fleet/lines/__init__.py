"""From a line of a landing file to the row that it becomes, without Spark: also for what reads lines elsewhere."""

"""What the collector and the tables' stream tell Prometheus; alert rules and a Grafana dashboard over that."""

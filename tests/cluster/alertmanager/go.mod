module splitpool.dev/tests/alertmanager

go 1.26.0

require github.com/prometheus/alertmanager v0.35.0

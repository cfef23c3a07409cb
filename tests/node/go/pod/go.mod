module splitpool.dev/tests/node/pod

go 1.26.0

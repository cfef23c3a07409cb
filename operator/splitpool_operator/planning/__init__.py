"""Does a pool fit, and which workers does it become? Pure."""

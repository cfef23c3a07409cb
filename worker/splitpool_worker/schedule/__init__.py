"""What the next iteration computes, and with which blocks: pure, for engine, tests, simulator."""

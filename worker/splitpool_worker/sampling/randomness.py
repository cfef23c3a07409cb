"""A random number that depends on a seed and a counter only: the same for the n-th token of a
request whatever runs beside it, however often it is preempted or resumed."""

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def uniform(seed: int, counter: int) -> float:
    """In [0, 1), with 53 random bits."""
    return float(_mix((_mix(seed & MASK) + (counter + 1) * GOLDEN) & MASK) >> 11) * 2.0**-53


def _mix(x: int) -> int:
    """The finaliser of SplitMix64 (Steele, Lea, Flood 2014)."""
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)

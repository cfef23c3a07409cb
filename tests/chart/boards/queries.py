"""How are the series of the programs asked for on a dashboard? PromQL of the usual shapes.

A selector narrows to the variables' namespace, pool and class.
"""

POOL = 'namespace=~"$namespace",pool=~"$pool"'
CLASS = f'{POOL},class=~"$class"'
BY_CLASS = "namespace, pool, class"
OF_CLASS = "{{pool}} {{class}}"
EVERY = "[$__rate_interval]"


def rate(name: str, by: str, *labels: str, selector: str = CLASS) -> str:
    """Increase a second, summed."""
    return f"sum by ({by}) (rate({name}{{{','.join((selector, *labels))}}}{EVERY}))"


def quantile(share: float, name: str, by: str, *labels: str, selector: str = CLASS) -> str:
    """A quantile of a histogram."""
    buckets = rate(f"{name}_bucket", f"le, {by}", *labels, selector=selector)
    return f"histogram_quantile({share:g}, {buckets})"


def total(name: str, by: str, *labels: str, selector: str = CLASS) -> str:
    """A gauge, summed."""
    return f"sum by ({by}) ({name}{{{','.join((selector, *labels))}}})"


def mean(name: str, by: str, *labels: str, selector: str = CLASS) -> str:
    """Mean of a histogram."""
    top, bottom = (
        rate(f"{name}_{end}", by, *labels, selector=selector) for end in ("sum", "count")
    )
    return f"{top} / {bottom}"


def _quantiles(name: str, *labels: str) -> tuple[tuple[str, str], ...]:
    return tuple(
        (quantile(share, name, BY_CLASS, *labels), f"{OF_CLASS} p{share * 100:g}")
        for share in (0.5, 0.99)
    )


def quantiles(name: str, *labels: str) -> tuple[tuple[str, str], ...]:
    """Median and p99 of a histogram by class, each with its legend."""
    return tuple(
        (quantile(share, name, BY_CLASS, *labels), f"{OF_CLASS} p{share * 100:g}")
        for share in (0.5, 0.99)
    )

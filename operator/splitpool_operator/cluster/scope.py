"""What does one operator look after: which namespaces, which pods image, which router?"""

from dataclasses import dataclass

from splitpool_operator.cluster.kinds import POOL, Kind
from splitpool_operator.rendering import names


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """The namespaces; none means all."""

    namespaces: tuple[str, ...] = ()

    @property
    def listed(self) -> tuple[str | None, ...]:
        """The namespaces to list, or None once for all."""
        return self.namespaces or (None,)


def selector(kind: Kind) -> str:
    """The labels by which objects of a kind are selected; every pool is ours."""
    return "" if kind is POOL else names.SELECTOR

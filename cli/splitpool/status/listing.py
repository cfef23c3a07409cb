"""How are many pools shown: a line for each, and how many are not ready?"""

from collections.abc import Iterator, Sequence

from splitpool.status.ages import short
from splitpool.status.glance import ClassGlance, Glance, State
from splitpool.status.look import Look
from splitpool.status.wording import count

_STYLES = {
    State.READY: "good",
    State.PROGRESSING: "busy",
    State.FAILING: "bad",
    State.STALLED: "bad",
    State.UNSEEN: "busy",
    State.DELETING: "busy",
}
# Where there is little room, the first of these go first.
_DISPENSABLE = ("FENCE", "AGE", "TTFT-P99", "MODEL", "BATCH", "INTERACTIVE")
_GAP = "  "


def listing(
    pools: Sequence[Glance], look: Look, *, everywhere: bool, prog: str = "splitpool"
) -> str:
    """The table; everywhere: pools of several namespaces; prog: how the command is called."""
    columns = _columns(pools)
    if not everywhere:
        del columns["NAMESPACE"]
    for name in _DISPENSABLE:
        if not look.whole and _width(columns) > look.width:
            del columns[name]
    lines = [f"  {look.paint('bold', _joined(columns, 0))}"]
    for row, pool in enumerate(pools, start=1):
        style = _STYLES[pool.state]
        lines.append(f"{look.paint(style, look.signs[style])} {_joined(columns, row)}")
        if pool.state in {State.FAILING, State.STALLED}:
            lines.append(f"    {look.cut(pool.message, look.width - 4)}")
    return "\n".join([*lines, *_closing(pools, look, prog)]) + "\n"


def _columns(pools: Sequence[Glance]) -> dict[str, list[str]]:
    """Each begins with its heading."""
    rows = [_row(each) for each in pools]
    return {name: [name, *(row[name] for row in rows)] for name in rows[0]}


def _row(pool: Glance) -> dict[str, str]:
    interactive, batch = pool.classes
    return {
        "NAMESPACE": pool.namespace,
        "NAME": pool.name,
        "STATE": _state(pool),
        "MODEL": pool.declared.model,
        "INTERACTIVE": _workers(interactive),
        "BATCH": _workers(batch),
        "TTFT-P99": "-" if interactive.ttft_ms is None else f"{interactive.ttft_ms} ms",
        "FENCE": pool.fence or "-",
        "AGE": short(pool.age),
    }


def _state(pool: Glance) -> str:
    """The reason says more, where it is of the present generation."""
    says_more = pool.state in {State.PROGRESSING, State.FAILING, State.STALLED}
    return pool.reason if says_more and pool.reason else str(pool.state)


def _workers(each: ClassGlance) -> str:
    return f"{each.ready}/{each.desired}"


def _width(columns: dict[str, list[str]]) -> int:
    return 2 + sum(max(map(len, cells)) + len(_GAP) for cells in columns.values()) - len(_GAP)


def _joined(columns: dict[str, list[str]], row: int) -> str:
    cells = (cells[row].ljust(max(map(len, cells))) for cells in columns.values())
    return _GAP.join(cells).rstrip()


def _closing(pools: Sequence[Glance], look: Look, prog: str) -> Iterator[str]:
    waiting = [each for each in pools if not each.ready]
    if not waiting:
        return
    verb = "is" if len(waiting) == 1 else "are"
    text = (
        f"{look.signs['arrow']} {len(waiting)} of {count(len(pools), 'pool')} {verb} not ready; "
        f"{prog} status {waiting[0].name} -n {waiting[0].namespace} says why and what to do."
    )
    yield ""
    yield from (look.paint("bold", line) for line in look.wrapped(text, 0))

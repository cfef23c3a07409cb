"""How is one pool shown to people? Pure: a glance in, a page out."""

from collections.abc import Iterable, Iterator

from splitpool.status.ages import short
from splitpool.status.class_table import class_table
from splitpool.status.glance import Declared, Glance, State
from splitpool.status.look import Look
from splitpool.status.matters import Condition
from splitpool.status.trouble import PodTrouble
from splitpool.status.wording import count
from splitpool_operator.reporting import reasons

# State: style and sign, and how the first line goes on.
_HEADLINES = {
    State.READY: ("good", "ready"),
    State.PROGRESSING: ("busy", "on its way"),
    State.FAILING: ("bad", "not ready"),
    State.STALLED: ("bad", "stalled"),
    State.UNSEEN: ("busy", "not seen by the operator"),
    State.DELETING: ("busy", "being deleted"),
}
_INDENT = 2
_HANGING = 4


def page(seen: Glance, advice: str | None, look: Look) -> str:
    """Everything worth knowing, the worst first and what to do last."""
    blocks = [
        [*_heading(seen, look), *_declared(seen, look)],
        class_table(seen.classes, look),
        _conditions(seen, look),
        _troubles(seen, look),
        _events(seen, look),
        [line for gap in seen.gaps for line in look.wrapped(f"({gap})", _INDENT)],
        _advice(seen, advice, look),
    ]
    return "\n\n".join("\n".join(block) for block in blocks if block) + "\n"


def _heading(seen: Glance, look: Look) -> Iterator[str]:
    style, words = _HEADLINES[seen.state]
    left = f"{look.signs[style]} {seen.name}: {words}"
    if seen.since is not None and seen.state not in {State.UNSEEN, State.DELETING}:
        left += f" for {short(seen.since)}"
    if seen.state in {State.PROGRESSING, State.FAILING, State.STALLED} and seen.reason:
        left += f", {seen.reason}"
    right = f"namespace {seen.namespace}, {short(seen.age)} old"
    gap = look.width - len(left) - len(right)
    painted = look.paint(style, look.paint("bold", left))
    if gap < 2:
        lines = look.wrapped(left, _INDENT)
        lines[0] = lines[0].lstrip()
        yield from (look.paint(style, line) for line in lines)
        yield " " * _INDENT + look.paint("dim", right)
    else:
        yield painted + " " * gap + look.paint("dim", right)


def _declared(seen: Glance, look: Look) -> Iterator[str]:
    declared, dot = seen.declared, look.signs["dot"]
    yield from look.wrapped(f"{declared.model} from {declared.source}", _INDENT)
    parts = [
        f"{declared.dtype}{_length(declared)}",
        _accelerator(declared),
        declared.topology + (f", sharing {declared.sharing}" if declared.sharing else ""),
        _fence(seen),
    ]
    if declared.autoscaling != "Off":
        parts.append(f"autoscaling {declared.autoscaling}")
    yield from look.wrapped(f" {dot} ".join(filter(None, parts)), _INDENT)


def _length(declared: Declared) -> str:
    return f", {declared.max_model_len} tokens" if declared.max_model_len else ""


def _accelerator(declared: Declared) -> str:
    if declared.accelerator == "cpu":
        return f"cpu with {declared.memory}"
    return f"{declared.count} x {declared.accelerator} {declared.memory}"


def _fence(seen: Glance) -> str:
    minimum = seen.declared.minimum_fence
    wanted = f" (at least {minimum})" if minimum != "Cooperative" else ""
    return f"fence {seen.fence or 'not reported'}{wanted}"


def _conditions(seen: Glance, look: Look) -> list[str]:
    return [line for each in seen.mattering for line in _condition(seen, each, look)]


def _condition(seen: Glance, condition: Condition, look: Look) -> Iterator[str]:
    """Ready's reason and age stand in the heading already."""
    sign, style = _sign(seen, condition)
    text = condition.message
    if condition.type != "Ready":
        age = short(condition.age)
        text = f"{condition.type} is {condition.status} for {age}: {text} ({condition.reason})"
    first, *rest = look.wrapped(text, _HANGING)
    yield f"{' ' * _INDENT}{look.paint(style, look.signs[sign])} {first.lstrip()}"
    yield from rest


def _sign(seen: Glance, condition: Condition) -> tuple[str, str]:
    """The sign and its style."""
    if condition.reason in {reasons.COOPERATIVE_ONLY, reasons.SCALED_TO_ZERO}:
        return "dot", "dim"
    if condition.type != "Ready":
        return "warning", "busy"
    waits = seen.state in {State.PROGRESSING, State.UNSEEN, State.DELETING}
    return ("busy", "busy") if waits else ("bad", "bad")


def _troubles(seen: Glance, look: Look) -> list[str]:
    lines = [line for each in seen.troubles for line in _trouble(seen, each, look)]
    if seen.starting:
        verb = "is" if seen.starting == 1 else "are"
        lines.append(f"  {look.signs['busy']} {count(seen.starting, 'pod')} {verb} starting")
    return lines


def _trouble(seen: Glance, pod: PodTrouble, look: Look) -> Iterator[str]:
    facts = [
        pod.reason,
        f"{short(pod.age)} old",
        count(pod.restarts, "restart") if pod.restarts else "",
        f"on {pod.node}" if pod.node else "on no node",
    ]
    others = f" and {pod.more} more" if pod.more else ""
    first, *rest = look.wrapped(f"pod {pod.name}{others}", _HANGING)
    head = f"{' ' * _INDENT}{look.signs['bad']} {first.lstrip()}"
    told = ", ".join(filter(None, facts))
    if not rest and len(head) + 2 + len(told) <= look.width:
        yield look.paint("bad", head) + look.paint("dim", f"  {told}")
    else:
        yield from (look.paint("bad", line) for line in (head, *rest))
        yield from (look.paint("dim", line) for line in look.wrapped(told, _HANGING))
    # The condition repeats the pod's words.
    if not any(pod.message in each.message for each in seen.mattering):
        yield from look.wrapped(pod.message, _HANGING)


def _events(seen: Glance, look: Look) -> list[str]:
    if not seen.events:
        return []
    widest = max(len(each.reason) for each in seen.events)
    lines = [look.paint("bold", "  Events")]
    for each in seen.events:
        sign = look.signs["warning"] if each.warning else look.signs["dot"]
        times = f" (x{each.times})" if each.times > 1 else ""
        about = f"{each.about}: " if each.about else ""
        head = f"  {sign} {short(each.age):>4}  {each.reason:<{widest}}  "
        text = look.cut(f"{about}{each.message}{times}", max(look.width - len(head), 0))
        lines.append((look.paint("busy", head) if each.warning else head) + text)
    return lines


def _advice(seen: Glance, advice: str | None, look: Look) -> Iterable[str]:
    if advice is None:
        return []
    arrow = look.signs["arrow"]
    first, *rest = look.wrapped(advice, len(arrow) + 1)
    return [
        look.paint("bold", f"{arrow} {first.lstrip()}"),
        *(look.paint("bold", line) for line in rest),
    ]

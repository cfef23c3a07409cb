"""Is a pool ready? A list of named checks; the first that finds something says why not."""

from collections.abc import Callable, Iterator

from splitpool_operator.reporting import reasons
from splitpool_operator.reporting.enforcement import weaker
from splitpool_operator.reporting.observed import PodState, RoleState
from splitpool_operator.reporting.placement import no_room
from splitpool_operator.reporting.view import Finding, View

Check = Callable[[View], Finding | None]


def first_finding(view: View) -> Finding | None:
    """Why the pool is not ready, or None."""
    return next((found for check in CHECKS if (found := check(view)) is not None), None)


def refused(view: View) -> Finding | None:
    """Nothing or not everything could be applied."""
    return view.refusal


def worker_refuses(view: View) -> Finding | None:
    """A worker of the present declaration says that it can never serve it."""
    for role, pod in _current_pods(view):
        if pod.trouble is not None and pod.trouble.final:
            text = f"{role.name}: {pod.trouble.message}"
            return Finding(reason=pod.trouble.reason, message=text, final=True)
    return None


def fence_too_weak(view: View) -> Finding | None:
    """The workers see no fence as strong as the pool demands."""
    for role in view.roles:
        fence = view.fence_of(role)
        if fence is not None and weaker(fence.enforcement, view.minimum):
            text = (
                f"{role.name}: the strongest fence that all workers see is {fence} and "
                f"spec.sharing.minimumEnforcement is {view.minimum}; lower it or use a mode or a "
                "driver that enforces more"
            )
            return Finding(reason=reasons.ENFORCEMENT_TOO_WEAK, message=text, final=True)
    return None


def created(view: View) -> Finding | None:
    """Every Deployment is there and its controller has seen its present form."""
    missing = [role.name for role in view.roles if not role.exists]
    if not missing:
        return None
    text = f"waiting for the Deployment of {', '.join(missing)}"
    return Finding(reason=reasons.CREATING, message=text)


def pods_made(view: View) -> Finding | None:
    """The API server lets the controllers make pods."""
    for role in view.roles:
        if role.trouble is not None and role.updated < view.enough(role):
            text = f"{role.name}: {role.trouble.message}"
            return Finding(reason=role.trouble.reason, message=text)
    return None


def in_trouble(view: View) -> Finding | None:
    """A worker cannot be placed, pulled or kept running."""
    for role, pod in _current_pods(view):
        if pod.trouble is None or _serves(view, role):
            continue
        if pod.trouble.reason == reasons.UNSCHEDULABLE and view.pool is not None:
            return no_room(view.pool.spec, role.name, pod.trouble.message)
        # Without the pod's name: it changes with every attempt, the trouble does not.
        text = f"{role.name}: {pod.trouble.message}"
        return Finding(reason=pod.trouble.reason, message=text)
    return None


def rolled_out(view: View) -> Finding | None:
    """Every worker runs the present declaration."""
    for role in view.roles:
        if role.outdated or role.updated < view.enough(role):
            text = f"{role.name}: {min(role.updated, role.desired)} of {role.desired} workers"
            return Finding(
                reason=reasons.ROLLING_OUT, message=f"{text} run the present declaration"
            )
    return None


def started(view: View) -> Finding | None:
    """Every worker is ready."""
    for role in view.roles:
        if role.current < view.enough(role):
            text = f"{role.name}: {role.current} of {role.desired} workers are ready"
            held = sum(pod.current and pod.held and not pod.terminating for pod in role.pods)
            if held:
                text += f"; {held} wait for volumes, devices or network (see kubectl describe pod)"
            return Finding(reason=reasons.STARTING, message=text)
    return None


def fence_reported(view: View) -> Finding | None:
    """Where the pool demands a fence, every worker has said which one it sees."""
    if view.minimum == "Cooperative":
        return None
    for role in view.roles:
        if role.ready and view.fence_of(role) is None:
            text = (
                f"{role.name}: not every worker has said which fence it sees, and spec.sharing."
                f"minimumEnforcement is {view.minimum}"
            )
            return Finding(reason=reasons.NOT_REPORTED, message=text)
    return None


def answers(view: View) -> Finding | None:
    """A router knows this generation and a probe token came back."""
    return view.probe


CHECKS: tuple[Check, ...] = (
    refused,
    worker_refuses,
    fence_too_weak,
    created,
    pods_made,
    in_trouble,
    rolled_out,
    started,
    fence_reported,
    answers,
)


def settled(view: View) -> bool:
    """Whether all but the question to the router is answered with yes."""
    return all(check(view) is None for check in CHECKS if check is not answers)


def _serves(view: View, role: RoleState) -> bool:
    """Whether a worker that autoscaling added is all that the role waits for."""
    return role.current >= view.enough(role) and role.current < role.desired


def _current_pods(view: View) -> Iterator[tuple[RoleState, PodState]]:
    for role in view.roles:
        yield from ((role, pod) for pod in role.pods if pod.current and not pod.terminating)

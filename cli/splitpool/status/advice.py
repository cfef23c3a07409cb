"""What should somebody do about a pool, in one sentence? Pure: a glance in, the sentence out."""

import datetime

from splitpool.status.glance import Glance, State
from splitpool.status.trouble import PodTrouble
from splitpool_operator.reporting import reasons

_OPERATOR = "kubectl logs -n splitpool deploy/splitpool-operator"
_ROUTER = "kubectl logs -n splitpool deploy/splitpool-router"
_LONG = datetime.timedelta(minutes=10)

# {kubectl} names the namespace, {pod} a pod in trouble, {cls} the class that it serves.
_BY_REASON = {
    reasons.INVALID_SPEC: "Correct the field that is named above: {kubectl} edit spl {name}.",
    reasons.DOES_NOT_FIT: "Lower vram or replicas, or raise spec.accelerator.count: "
    "{kubectl} edit spl {name}; `splitpool plan FILE` shows what fits.",
    reasons.SHARING_UNSUPPORTED: "Choose another spec.sharing.mode: {kubectl} edit spl {name}.",
    reasons.MODEL_NAME_CONFLICT: "Give this pool another spec.model.name, or delete the older pool "
    "if nobody needs it.",
    reasons.FOREIGN_OBJECT: "Delete the object that is named above if nobody needs it, or give the "
    "pool another name.",
    reasons.WORKER_REFUSES: "Correct what the worker refuses: {kubectl} edit spl {name}.",
    reasons.QUOTA_TOO_SMALL: "Raise the quota as said above: {kubectl} edit spl {name}.",
    reasons.MODEL_NOT_FOUND: "Correct spec.model.source: {kubectl} edit spl {name}.",
    reasons.ENFORCEMENT_TOO_WEAK: "Lower spec.sharing.minimumEnforcement, or use a sharing mode "
    "that enforces more: {kubectl} edit spl {name}.",
    reasons.APPLY_FAILED: "Remove what the API server objects to; the operator tries again by "
    f"itself, and {_OPERATOR} shows each attempt.",
    reasons.IMAGE_PULL_FAILED: "Correct spec.podTemplate.image or give the nodes access to its "
    "registry: {kubectl} describe pod {pod}.",
    reasons.CONTAINER_CANNOT_START: "{kubectl} describe pod {pod} shows what the container lacks.",
    reasons.MODEL_DOWNLOAD_FAILED: "{kubectl} logs {pod} -c model shows why the download ends; "
    "check spec.model.source and the way to it.",
    reasons.OOM_KILLED: "Raise spec.pools.{cls}.hostMemory: {kubectl} edit spl {name}.",
    reasons.CRASH_LOOP: "{kubectl} logs {pod} --previous shows the worker's last words.",
    reasons.UNSCHEDULABLE: "Free room on a node or add one; {kubectl} describe pod {pod} shows "
    "what each node lacks.",
    reasons.PODS_REFUSED: "Change the namespace's limits or the pool's size: {kubectl} describe "
    "resourcequota,limitrange shows what is allowed.",
    reasons.WAITING_FOR_GPU: "Free GPU memory or add a GPU; {kubectl} describe pod {pod} shows "
    "what each node lacks.",
    reasons.PROBE_FAILED: f"{_ROUTER} shows why no token comes back.",
}
_WAIT = "Wait: {kubectl} wait --for=condition=Ready spl/{name} --timeout=10m."
_LASTS = {
    reasons.ROUTER_BEHIND: f"This lasts longer than it should: {_ROUTER} shows what the routers "
    "wait for.",
    reasons.CREATING: f"This lasts longer than it should: {_OPERATOR} shows what it waits for.",
    reasons.STARTING: "This lasts longer than it should: {kubectl} logs {workers} shows how far "
    "the workers are.",
    reasons.ROLLING_OUT: "This lasts longer than it should: {kubectl} logs {workers} shows how far "
    "the workers are.",
    reasons.PREDECESSOR_TERMINATING: "This lasts longer than it should: {kubectl} get all "
    "{workers} shows what is still there.",
}


def advice(seen: Glance, kubectl: str) -> str | None:
    """What to do, with commands that begin like `kubectl -n team`; None where nothing is wrong."""
    sentence = _sentence(seen)
    if sentence is None:
        return None
    worst = min(seen.troubles, key=lambda each: _distance(each, seen), default=None)
    role = worst.role if worst else "interactive"
    return sentence.format(
        kubectl=kubectl,
        name=seen.name,
        pod=worst.name if worst else f"-l splitpool.dev/pool={seen.name}",
        cls="interactive" if role == "shared" else role,
        workers=f"-l splitpool.dev/pool={seen.name}",
    )


def _distance(pod: PodTrouble, seen: Glance) -> tuple[bool, bool]:
    """The pod that Ready speaks of comes first: its message begins with the role."""
    return not seen.message.startswith(f"{pod.role}:"), pod.reason != seen.reason


def _sentence(seen: Glance) -> str | None:
    match seen.state:
        case State.READY:
            return _of_ready(seen)
        case State.DELETING:
            return "Wait: {kubectl} wait --for=delete spl/{name} --timeout=10m."
        case State.UNSEEN:
            return _of_unseen(seen)
    if seen.state is State.PROGRESSING:
        lasts = seen.since is not None and seen.since > _LONG
        return _LASTS.get(seen.reason, _WAIT) if lasts else _WAIT
    return _BY_REASON.get(
        seen.reason, "Read what is said above; {kubectl} describe spl {name} shows the rest."
    )


def _of_unseen(seen: Glance) -> str:
    if seen.observed:
        return (
            "The operator has not looked at the last change; if that lasts, see whether it runs: "
            f"{_OPERATOR}."
        )
    return (
        "Install the operator (helm install splitpool charts/splitpool -n splitpool), or let it "
        f"watch this namespace; where it runs, {_OPERATOR} says what it waits for."
    )


def _of_ready(seen: Glance) -> str | None:
    slow = next((each for each in seen.classes if each.too_slow), None)
    if slow is None:
        return None
    return (
        f"TTFT of {slow.name} is above its target: raise spec.pools.{slow.name}.replicas, or lower "
        "its maxBatch: {kubectl} edit spl {name}."
    )

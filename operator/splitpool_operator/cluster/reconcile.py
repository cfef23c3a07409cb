"""One pool: what is there, what should be, the difference applied, the rest pruned, all reported.

Level-based: it reads the store only, so that a pool on which nothing changed costs no request.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from splitpool_operator.cluster import kinds
from splitpool_operator.cluster.diff import Action, action, owned_by, owner
from splitpool_operator.cluster.events import events, scalings
from splitpool_operator.cluster.handover import gives_up_replicas
from splitpool_operator.cluster.kube import Closing, Gone, Kube, Refused, Unavailable
from splitpool_operator.cluster.planned import Planned, Rejected, check_name, planned, read
from splitpool_operator.cluster.probe import Probe
from splitpool_operator.cluster.scaling import Autoscaler
from splitpool_operator.cluster.store import Key, Store
from splitpool_operator.declaration.pool import CLASSES, InferencePool
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.manifests import Manifest
from splitpool_operator.reporting import checks, reasons
from splitpool_operator.reporting.observed import PodState, RoleState, role_state
from splitpool_operator.reporting.status import status
from splitpool_operator.reporting.view import Finding, Scaling, View

log = logging.getLogger("splitpool_operator")

# How soon a pool is looked at again for which no watch tells of the change.
_ASK_AGAIN_SECONDS = 5.0
# Objects that are not ours are not watched.
_FOREIGN_AGAIN_SECONDS = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    """Everything that reconciling needs; now: RFC 3339."""

    store: Store
    kube: Kube
    probe: Probe
    autoscaler: Autoscaler
    # Is told of every change of replicas: the pool, the class and why.
    scaled: Callable[[Key, str, str], None]
    installation: Installation
    now: Callable[[], str]

    async def reconcile(self, key: Key) -> float | None:
        """Bring one pool closer; the seconds after which to look again, if no event will tell.

        Raises kube.Refused and kube.Unavailable: to be tried again, ever later; and kube.Closing:
        not to be tried again, for the pool goes with its namespace.
        """
        raw = self.store.pool(key)
        if raw is None or raw["metadata"].get("deletionTimestamp"):
            self.probe.forget(key)
            self.autoscaler.forget(key)
            return None
        try:
            pool = read(raw)
        except Rejected as rejected:
            await self._report(raw, _view(raw, None, refusal=rejected.finding))
            return None
        return await self._pursue(raw, pool)

    async def _pursue(self, raw: Manifest, pool: InferencePool) -> float | None:
        try:
            check_name(raw, pool, self.store.serving(pool.spec.model.name))
            before = raw.get("status") or {}
            scaling = await self.autoscaler.scaling(pool, before)
            wanted = _wanted(scaling)
            plan = planned(pool, self.installation, self.store, wanted=wanted, status=before)
        except Rejected as rejected:
            running = self._running(pool)
            await self._report(raw, _view(raw, pool, refusal=rejected.finding, roles=running))
            return None
        refusal = await self._apply(plan)
        states = self._states(pool, plan)
        if refusal is None:
            await self._prune(pool, plan, states)
            self._count(pool.key, scaling)
        else:
            scaling = replace(scaling, decision=None)
        view = replace(_view(raw, pool, refusal=refusal, roles=states), scaling=scaling)
        view = await self._asked(pool, view)
        await self._report(raw, view)
        if refusal is not None and refusal.reason == reasons.APPLY_FAILED:
            raise Refused(refusal.message)
        if refusal is not None and refusal.reason == reasons.FOREIGN_OBJECT:
            return _FOREIGN_AGAIN_SECONDS
        waits = refusal is not None or view.probe is not None or checks.fence_reported(view)
        pauses = (self.autoscaler.again(pool), _ASK_AGAIN_SECONDS if waits else None)
        return min((each for each in pauses if each is not None), default=None)

    async def _apply(self, plan: Planned) -> Finding | None:
        """Create and repair, Deployments last; the first object that could not be.

        What does not depend on one another goes out together: a slow API server is waited for
        once or twice, not once per object.
        """
        workers = kinds.DEPLOYMENT.name
        for last in (False, True):
            wave = [each for each in plan.manifests if (each["kind"] == workers) is last]
            refusal = await self._apply_together([each for each in wave if self._differs(each)])
            if refusal is not None:
                return refusal
        return None

    async def _apply_together(self, manifests: list[Manifest]) -> Finding | None:
        outcomes = await asyncio.gather(*map(self._apply_one, manifests), return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        return next((each for each in outcomes if isinstance(each, Finding)), None)

    def _differs(self, manifest: Manifest) -> bool:
        live = self._known(manifest)
        return live is None or action(live, manifest) is not Action.KEEP

    def _known(self, manifest: Manifest) -> Manifest | None:
        metadata = manifest["metadata"]
        return self.store.get(kinds.of(manifest), (metadata["namespace"], metadata["name"]))

    async def _apply_one(self, manifest: Manifest) -> Finding | None:
        kind, metadata = kinds.of(manifest), manifest["metadata"]
        live = self._known(manifest)
        if live is None:
            # Not selected by our labels, but the name may be taken all the same.
            live = await self.kube.get(kind, metadata["namespace"], metadata["name"])
        match action(live, manifest):
            case Action.KEEP:
                return None
            case Action.REFUSE:
                return _foreign(manifest, live or {})
            case Action.WAIT:
                text = f"{manifest['kind']} {metadata['name']} of a deleted pool is still there"
                return Finding(reason=reasons.PREDECESSOR_TERMINATING, message=text)
            case Action.CREATE | Action.APPLY:
                return await self._write(manifest, live)

    async def _write(self, manifest: Manifest, live: Manifest | None) -> Finding | None:
        kind, metadata = kinds.of(manifest), manifest["metadata"]
        try:
            if live is not None and gives_up_replicas(live, manifest):
                await self.kube.hand_over_replicas(live)
            self.store.put(kind, await self.kube.apply(manifest))
        except (Refused, Gone) as error:
            text = f"{manifest['kind']} {metadata['name']}: {error}"
            log.warning("apply refused", extra={"object": metadata["name"], "why": str(error)})
            return Finding(reason=reasons.APPLY_FAILED, message=text[:2048])
        log.info("applied", extra={"kind": kind.name, "object": metadata["name"]})
        return None

    def _count(self, key: Key, scaling: Scaling) -> None:
        for name, was, move in scaling.changes:
            self.scaled(key, name, move.reason)
            moved = {"from": was.replicas, "to": move.replicas, "why": move.text}
            log.info("scaled", extra={"pool": "/".join(key), "class": name, **moved})

    def _states(self, pool: InferencePool, plan: Planned) -> tuple[RoleState, ...]:
        pods = self.store.of_pool(kinds.POD, pool.key)
        return tuple(
            role_state(manifest, self._known(manifest), pods, initial=initial)
            for manifest, initial in _deployments(plan)
        )

    def _running(self, pool: InferencePool) -> tuple[RoleState, ...]:
        """The workers of an earlier declaration, which go on while the present one is refused."""
        pods = self.store.of_pool(kinds.POD, pool.key)
        return tuple(
            role_state(live, live, pods, initial=0)
            for live in self.store.of_pool(kinds.DEPLOYMENT, pool.key)
            if owned_by(live, pool.metadata.uid)
        )

    async def _prune(
        self, pool: InferencePool, plan: Planned, states: tuple[RoleState, ...]
    ) -> None:
        """Delete what is ours and no longer planned."""
        wanted = {(kinds.of(each), each["metadata"]["name"]) for each in plan.manifests}
        moving = any(state.outdated or not state.exists for state in states)
        for kind in kinds.CHILDREN:
            if moving and kind in kinds.NAMED_BY_CONTENT:
                continue
            for live in self.store.of_pool(kind, pool.key):
                if self._is_surplus(kind, live, wanted, pool.metadata.uid):
                    await self.kube.delete(kind, live)
                    log.info(
                        "pruned", extra={"kind": kind.name, "object": live["metadata"]["name"]}
                    )

    @staticmethod
    def _is_surplus(
        kind: kinds.Kind, live: Manifest, wanted: set[tuple[kinds.Kind, str]], uid: str
    ) -> bool:
        metadata = live["metadata"]
        planned_too = (kind, metadata["name"]) in wanted
        return not planned_too and owned_by(live, uid) and "deletionTimestamp" not in metadata

    async def _asked(self, pool: InferencePool, view: View) -> View:
        """The view with what workers report and, where all else is well, what a router says."""
        pods = _ready_pods(view)
        view = replace(view, reports=await self.probe.workers(pods))
        if not checks.settled(view):
            return view
        classes = [name for name in CLASSES if (role := view.role_of(name)) and role.desired]
        return replace(view, probe=await self.probe.serving(pool, pods, classes))

    async def _report(self, raw: Manifest, view: View) -> None:
        """Write the status where it says something new, and tell of transitions."""
        now = self.now()
        made, before = status(view, now), raw.get("status") or {}
        if made == before:
            return
        try:
            written = await self.kube.write_status(raw, made)
        except Gone:
            return
        self.store.put(kinds.POOL, written)
        conditions = before.get("conditions") or []
        await self._tell(events(raw, conditions, made["conditions"], now))
        if view.scaling is not None:
            await self._tell(scalings(raw, view.scaling, now))

    async def _tell(self, told: Iterable[Manifest]) -> None:
        """Events are for people who watch: one that is lost is not posted later."""
        for event in told:
            try:
                await self.kube.emit(event)
            except (Refused, Unavailable, Gone, Closing) as error:
                log.warning("event lost", extra={"why": str(error)})


def _view(
    raw: Mapping[str, Any],
    pool: InferencePool | None,
    *,
    refusal: Finding | None = None,
    roles: tuple[RoleState, ...] = (),
) -> View:
    return View(
        generation=raw["metadata"].get("generation", 0),
        pool=pool,
        refusal=refusal,
        roles=roles,
        previous=raw.get("status") or {},
    )


def _wanted(scaling: Scaling) -> dict[str, int]:
    """The replicas that autoscaling wants, by role."""
    shared = scaling.scene is not None and scaling.scene.batch is None
    return {"shared" if shared else name: move.replicas for name, _, move in scaling.moves}


def _foreign(manifest: Manifest, live: Manifest) -> Finding:
    name = f"{manifest['kind']} {manifest['metadata']['name']}"
    text = (
        f"{name} exists and belongs to {owner(live)}, not to this pool; rename the pool, or "
        "delete that object if nobody needs it"
    )
    return Finding(reason=reasons.FOREIGN_OBJECT, message=text, final=True)


def _deployments(plan: Planned) -> list[tuple[Manifest, int]]:
    made = [each for each in plan.manifests if each["kind"] == kinds.DEPLOYMENT.name]
    return list(zip(made, plan.initial.values(), strict=True))


def _ready_pods(view: View) -> list[PodState]:
    return [pod for role in view.roles for pod in role.pods if pod.ready and not pod.terminating]

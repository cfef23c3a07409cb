"""Which Deployments does a plan become, and what does every pod of one run?"""

from dataclasses import dataclass

from splitpool_operator.declaration.pool import ClassName, class_spec
from splitpool_operator.planning import plan as planning
from splitpool_operator.planning.plan import Plan, WorkerPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class Role:
    """The equal workers of a pool."""

    name: str
    classes: tuple[ClassName, ...]
    # As declared; a class at zero has its objects too.
    replicas: int
    worker: WorkerPlan
    # CPU threads of a worker, where the pool declares its cores; else what the pod may use.
    threads: int | None


def roles(plan: Plan) -> tuple[Role, ...]:
    """The roles of a plan, interactive first."""
    spec = plan.pool.spec
    cores = spec.accelerator.cores
    threads = None if cores is None else max(1, cores // max(1, len(plan.workers)))
    return tuple(
        Role(
            name=planning.role(classes),
            classes=classes,
            replicas=class_spec(spec, classes[0]).replicas,
            worker=planning.worker(plan.pool, classes, threads=threads or 1),
            threads=threads,
        )
        for classes in planning.kinds(spec)
    )

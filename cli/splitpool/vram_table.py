"""How is a plan shown: GPU by GPU, class by class, what each quota goes to?"""

from typing import Any

from splitpool_operator.declaration import defaults
from splitpool_operator.planning.plan import Plan, WorkerPlan
from splitpool_operator.planning.quota import Room, depends_on_order
from splitpool_quantity.quantity import approximate, show

_PLACE = ("DEVICE", "WORKER", "CLASS", "THREADS", "QUOTA")
_PARTS = ("CONTEXT", "WEIGHTS", "WORKSPACE", "KV", "TOKENS", "SEQUENCES")


def render(plan: Plan, rooms: dict[str, list[Room]], note: str) -> str:
    """The table of one pool with its heading and what is left of each device."""
    spec = plan.pool.spec
    rows = [row for worker in plan.workers for row in _rows(worker, rooms.get(worker.name))]
    lines = [_heading(plan), "", *_aligned([(*_PLACE, *_PARTS), *rows]), ""]
    lines += [_left(plan, gpu) for gpu in _devices(plan)]
    if rooms:
        lines.append("SEQUENCES: how many of maxModelLen tokens the KV cache holds at once.")
    if note:
        lines.append(note)
    if depends_on_order(spec):
        lines.append(
            "The cluster's scheduler places workers in any order, and in some orders these quotas "
            "leave one without room; `splitpool up` places them as above."
        )
    if spec.autoscaling.mode != "Off":
        bounds = {name: defaults.bounds(spec, name) for name in ("interactive", "batch")}
        shown = ", ".join(f"{name} {b.low} to {b.high}" for name, b in bounds.items())
        lines.append(f"autoscaling {spec.autoscaling.mode}: replicas {shown}; every bound fits.")
    return "\n".join(lines) + "\n"


def as_json(plan: Plan, rooms: dict[str, list[Room]], note: str) -> dict[str, Any]:
    """The same numbers in bytes, for machines."""
    namespace, name = plan.pool.key
    return {
        "namespace": namespace,
        "pool": name,
        "model": plan.pool.spec.model.name,
        "topology": plan.pool.spec.topology,
        "note": note,
        "devices": [_device_json(plan, gpu) for gpu in _devices(plan)],
        "workers": [_worker_json(worker, rooms.get(worker.name)) for worker in plan.workers],
    }


def _heading(plan: Plan) -> str:
    spec, (namespace, name) = plan.pool.spec, plan.pool.key
    accelerator = spec.accelerator
    kind = "host memory" if accelerator.type == "cpu" else f"{accelerator.type} GPU"
    count = "" if accelerator.type == "cpu" else f"{accelerator.count} x "
    sharing = defaults.sharing(spec)
    mode = f", sharing {sharing.mode}" if sharing else ""
    return (
        f"pool {namespace}/{name}: {spec.model.name} ({spec.model.dtype}), {spec.topology}{mode}\n"
        f"{count}{kind} of {show(accelerator.memory)}, headroom {approximate(plan.headroom)}"
    )


def _rows(worker: WorkerPlan, rooms: list[Room] | None) -> list[tuple[str, ...]]:
    rows = []
    for position, (name, quota) in enumerate(worker.quotas.items()):
        first = position == 0
        threads = worker.env["OMP_NUM_THREADS"] if first else ""
        place = (_device(worker), worker.name) if first else ("", "")
        rows.append((*place, name, threads, show(quota), *_parts(rooms, position)))
    return rows


def _parts(rooms: list[Room] | None, position: int) -> tuple[str, ...]:
    if rooms is None:
        return ("?",) * len(_PARTS)
    room = rooms[position]
    sizes = (room.context, room.weights, room.workspace, room.kv)
    return (*map(approximate, sizes), str(room.tokens), str(room.sequences))


def _device(worker: WorkerPlan) -> str:
    return "cpu" if worker.gpu is None else f"GPU {worker.gpu}"


def _devices(plan: Plan) -> list[int | None]:
    """Every device of the pool, those without a worker too."""
    accelerator = plan.pool.spec.accelerator
    if accelerator.type == "cpu":
        return [None]
    return [plan.first_gpu + index for index in range(accelerator.count)]


def _used(plan: Plan, gpu: int | None) -> int:
    return sum(worker.vram for worker in plan.workers if worker.gpu == gpu)


def _left(plan: Plan, gpu: int | None) -> str:
    memory, used = plan.pool.spec.accelerator.memory, _used(plan, gpu)
    name = "cpu" if gpu is None else f"GPU {gpu}"
    free = memory - plan.headroom - used
    text = (
        f"{name}: {show(used)} of {show(memory)} in quotas, {approximate(plan.headroom)} headroom, "
        f"{approximate(free)} left"
    )
    if gpu is None:
        host = sum(worker.host_memory for worker in plan.workers)
        text += f"; beside the quotas the processes may use {show(host)} (hostMemory)"
    return text


def _device_json(plan: Plan, gpu: int | None) -> dict[str, Any]:
    memory, used = plan.pool.spec.accelerator.memory, _used(plan, gpu)
    return {
        "gpu": gpu,
        "memory": memory,
        "headroom": plan.headroom,
        "quotas": used,
        "left": memory - plan.headroom - used,
    }


def _worker_json(worker: WorkerPlan, rooms: list[Room] | None) -> dict[str, Any]:
    classes: list[dict[str, Any]] = []
    for position, (name, quota) in enumerate(worker.quotas.items()):
        entry: dict[str, Any] = {"class": name, "quota": quota}
        if rooms is not None:
            room = rooms[position]
            entry |= {
                "context": room.context,
                "weights": room.weights,
                "workspace": room.workspace,
                "kv": room.kv,
                "tokens": room.tokens,
                "sequences": room.sequences,
                "spare": room.spare,
            }
        classes.append(entry)
    return {
        "name": worker.name,
        "gpu": worker.gpu,
        "threads": int(worker.env["OMP_NUM_THREADS"]),
        "hostMemory": worker.host_memory,
        "classes": classes,
        "argv": list(worker.argv),
    }


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  ".join(
            cell.ljust(width) if column < 3 else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]

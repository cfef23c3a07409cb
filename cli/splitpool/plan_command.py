"""`splitpool plan FILE`: the VRAM of every GPU and class, as a table or as JSON."""

import argparse
import json
from typing import Any

from splitpool import pool_file, vram_table
from splitpool.output import complain, say
from splitpool_operator.local import inspect_model, refusals
from splitpool_operator.local.inspect_model import INSPECT, InspectFailed
from splitpool_operator.local.refusals import EXIT_DOES_NOT_FIT
from splitpool_operator.planning.plan import Plan
from splitpool_operator.planning.quota import QuotaTooSmall, Room

MODEL_NOTE = "Numbers of the model need its file on this machine (file:// or python://)."


def run(options: argparse.Namespace) -> int:
    """Print what was planned; the exit status."""
    plans = pool_file.plans(options.file)
    if isinstance(plans, pool_file.Unusable):
        return pool_file.complain(plans)
    code = 0
    shown: list[dict[str, Any]] = []
    for plan in plans:
        rooms, note, worst = _rooms(plan)
        code = max(code, worst)
        if options.output == "json":
            shown.append(vram_table.as_json(plan, rooms, note))
        else:
            say(vram_table.render(plan, rooms, "" if worst else note) + "\n")
        if worst:
            complain(f"splitpool: {note}")
    if options.output == "json":
        say(json.dumps(shown, indent=2) + "\n")
    return code


def _rooms(plan: Plan) -> tuple[dict[str, list[Room]], str, int]:
    """Rooms by worker, or none and why; and the exit status that this means."""
    if not inspect_model.is_local(plan.pool.spec):
        source = plan.pool.spec.model.source
        return {}, f"model numbers are missing: {source} is not on this machine", 0
    try:
        return refusals.rooms(plan, INSPECT), "", 0
    except InspectFailed as error:
        return {}, str(error), refusals.exit_status(error)
    except QuotaTooSmall as error:
        return {}, str(error), EXIT_DOES_NOT_FIT

"""The record of a step: what each class had of it, as statistics and as a line of the step log."""

import json
from collections.abc import Mapping
from dataclasses import fields
from typing import TextIO

from splitpool_worker.schedule.lane import Lane
from splitpool_worker.schedule.sequence import LatencyClass
from splitpool_worker.schedule.stats import ClassStep, StepStats
from splitpool_worker.schedule.step import Portion, StepPlan

COUNTS = tuple(field.name for field in fields(ClassStep))


class Reporter:
    """Turns the lanes' running totals into counts of one step."""

    def __init__(self, lanes: Mapping[LatencyClass, Lane]) -> None:
        self._lanes = lanes
        self._totals = {cls: (0, 0, 0) for cls in lanes}

    def record(
        self, plan: StepPlan, started: float, ended: float, parts: Mapping[str, float]
    ) -> StepStats:
        return StepStats(
            step=plan.number,
            started=started,
            seconds=ended - started,
            parts=parts,
            classes={
                cls: self._of_class(cls, lane, plan.portions[cls])
                for cls, lane in self._lanes.items()
            },
        )

    def _of_class(self, cls: LatencyClass, lane: Lane, portion: Portion) -> ClassStep:
        preemptions, queries, hits = self._totals[cls]
        self._totals[cls] = (lane.preemptions, lane.query_tokens, lane.hit_tokens)
        return ClassStep(
            decode_tokens=portion.decodes,
            draft_tokens=portion.drafted,
            accepted_tokens=portion.accepted,
            prefill_tokens=portion.prefills,
            budget=portion.budget,
            waiting=len(lane.waiting),
            running=len(lane.running),
            preemptions=lane.preemptions - preemptions,
            utilisation=lane.utilisation.ratio,
            kv_used_tokens=lane.kv_used_tokens,
            prefix_query_tokens=lane.query_tokens - queries,
            prefix_hit_tokens=lane.hit_tokens - hits,
        )


def write_line(log: TextIO, stats: StepStats) -> None:
    """One JSON object per step, readable by others at once."""
    line = {
        "step": stats.step,
        "started": stats.started,
        "seconds": stats.seconds,
        "parts": dict(stats.parts),
        "classes": {
            cls.value: {name: getattr(step, name) for name in COUNTS}
            for cls, step in stats.classes.items()
        },
    }
    log.write(json.dumps(line, separators=(",", ":")) + "\n")
    log.flush()

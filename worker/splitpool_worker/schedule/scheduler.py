"""What the next iteration computes: running sequences first, then prefill, within one token budget.

The caller plans, runs the plan on a model and commits the tokens drawn; nothing here knows a
model, a clock or a thread.
"""

from collections.abc import Iterable, Mapping
from collections.abc import Sequence as Many
from dataclasses import replace
from itertools import islice

from splitpool_worker.schedule.admission import (
    WINDOW,
    gathering,
    impatient,
    in_order,
    passed_over,
    static_batch,
)
from splitpool_worker.schedule.lane import Lane
from splitpool_worker.schedule.limits import WorkerLimits
from splitpool_worker.schedule.pace import Pace
from splitpool_worker.schedule.progress import advance, ended
from splitpool_worker.schedule.sequence import (
    Drawn,
    FinishReason,
    LatencyClass,
    Request,
    Sequence,
    TokenOutput,
)
from splitpool_worker.schedule.stats import ClassLoad
from splitpool_worker.schedule.step import Portion, StepPlan

MIN_PREFILL = 16
"""Prefill tokens a class may have in a step however slow the step is predicted to be: as many as
the rule tokenBudget >= maxBatch + 16 leaves beside a full set of decodes."""
BACKGROUND = 16
"""Batch gets one such part of its budget while an interactive client waits or prefills."""
BACKGROUND_PREFILL = 4
"""And so many prefill tokens at least, where the interactive prompts fill the step: 16 would take
a tenth of a step on a CPU."""
BESIDE = 1 / 3
"""Part of the longest step that batch prompts may fill a step to beside interactive sequences,
each of which waits for its end; a newcomer does, too."""
MOST_DRAFTING = 16
"""Decodes of the largest step with drafts: finding them takes the host some microseconds each, and
a row of a larger step saves no more than it costs."""
STUCK_AFTER = 16
"""Empty iterations with work to do before the head of a queue is failed."""


class Scheduler:
    def __init__(self, limits: WorkerLimits) -> None:
        self._limits = limits
        self._pace = Pace(limits.max_step_s)
        self._live: dict[str, Sequence] = {}
        self._lanes = _lanes(limits)
        self._budget = sum(lane.limits.token_budget for lane in self._lanes.values())
        self._yielded = (0, float("-inf"))
        self._steps = 0
        self._empty_plans = 0

    @property
    def lanes(self) -> Mapping[LatencyClass, Lane]:
        return self._lanes

    @property
    def live(self) -> list[Sequence]:
        return list(self._live.values())

    @property
    def idle(self) -> bool:
        return not self._live

    def add(self, request: Request, now: float) -> None:
        """Queue a request that was found to fit."""
        if request.id in self._live:
            raise ValueError(f"a request {request.id!r} is live already")
        sequence = Sequence.of(request, submitted=now)
        self._live[request.id] = sequence
        self._lane(sequence).waiting.push(sequence)

    def drop(self, request_id: str) -> bool:
        """Forget a request and free its blocks; whether it was live."""
        sequence = self._live.pop(request_id, None)
        if sequence is not None:
            self._lane(sequence).leave(sequence)
        return sequence is not None

    def set_orphan(self, request_id: str, orphan: bool) -> None:
        """The client of a resumable stream is gone, or back."""
        sequence = self._live.get(request_id)
        if sequence is not None and sequence.orphan != orphan:
            self._lane(sequence).waiting.set_orphan(sequence, orphan)

    def set_yield(self, token_budget: int, until: float) -> None:
        """Until then the batch class gets at most this many tokens a step."""
        self._yielded = (max(1, token_budget), until)

    def load(self) -> dict[LatencyClass, ClassLoad]:
        return {cls: lane.load() for cls, lane in self._lanes.items()}

    def check(self) -> None:
        """Raise BlockLeak where blocks do not add up."""
        for lane in self._lanes.values():
            lane.check()

    def plan(self, now: float) -> StepPlan:
        """Compose the next iteration; admits, grows and preempts on the way.

        Interactive comes first: batch decodes are planned before interactive prefills, so that the
        pace knows of them, but from what is set aside for batch while such prefills go on.
        """
        plan = StepPlan(number=self._steps)
        turns = [[lane] for lane in self._lanes.values()]
        if not self._limits.class_priority:
            turns = [list(self._lanes.values())]
        background = self._limits.class_priority and self._interactive_busy()
        for lane in self._lanes.values():
            share = self._share(lane, plan, background, now)
            plan.portions[lane.limits.cls] = Portion(share, lane.preemptions)
            self._decode(lane, plan, orphans=False)
        for lanes in turns:
            self._prefill(lanes, plan, now, orphans=False)
        self._serve_orphans(plan, now)
        self._draft(plan)
        self._watch(plan, now)
        if plan.shares:
            self._steps += 1
            for lane in self._lanes.values():
                plan.copies += lane.copies
                lane.copies.clear()
        return plan

    def commit(
        self, plan: StepPlan, drawn: Iterable[Drawn | None], now: float
    ) -> list[TokenOutput]:
        """Account for a plan that ran. `drawn` gives a token for each row that samples, in order,
        None where the model gave none. What was dropped since the plan has no output."""
        tokens = iter(drawn)
        outputs = []
        for share in plan.shares:
            of_share = list(islice(tokens, share.sampled))
            if self._live.get(share.sequence.id) is not share.sequence:
                continue
            came = advance(share, of_share, now)
            share.lane.produced += bool(came)
            plan.portions[share.lane.limits.cls].accepted += max(0, len(came) - 1)
            outputs += came
            if came and came[-1].finish is not None:
                share.lane.lengths.finished(share.sequence.outputs)
                self.drop(share.sequence.id)
        for lane in self._lanes.values():
            lane.end_step(ran=plan.portions[lane.limits.cls].tokens > 0)
        return outputs

    def fail(self, sequences: Iterable[Sequence], error: str) -> list[TokenOutput]:
        """End these sequences with an error."""
        live = [s for s in sequences if self._live.get(s.id) is s]
        for sequence in live:
            self.drop(sequence.id)
        return [ended(sequence, FinishReason.ERROR, error) for sequence in live]

    def observe(self, plan: StepPlan, seconds: float) -> None:
        """Learn from the time that a plan took to run."""
        self._pace.observe(plan.work, seconds)

    def _lane(self, sequence: Sequence) -> Lane:
        return self._lanes[sequence.request.cls]

    def _interactive_busy(self) -> bool:
        interactive = self._lanes.get(LatencyClass.INTERACTIVE)
        return interactive is not None and interactive.busy

    def _share(self, lane: Lane, plan: StepPlan, background: bool, now: float) -> int:
        """Tokens this class may have in this iteration."""
        share = self._budget - plan.tokens
        batch = self._lanes.get(LatencyClass.BATCH)
        if batch is None:
            return share
        least = max(1, batch.limits.token_budget // BACKGROUND)
        if lane is not batch:
            kept = least if self._limits.class_priority and not batch.idle else 0
            return share - kept
        tokens, until = self._yielded
        return min(share, least if background else share, tokens if now < until else share)

    def _serve_orphans(self, plan: StepPlan, now: float) -> None:
        """What is left goes to sequences whose clients are gone; by now they have given slots and
        blocks to whoever needed them."""
        lanes = [lane for lane in self._lanes.values() if lane.orphaned]
        for lane in lanes:
            self._decode(lane, plan, orphans=True)
        if lanes:
            self._prefill(lanes, plan, now, orphans=True)

    def _decode(self, lane: Lane, plan: StepPlan, *, orphans: bool) -> None:
        """One token for each decoding sequence; where the budget is too small they take turns."""
        ready = lane.decoding(orphans=orphans)
        if len(ready) > (left := self._left(lane, plan)):
            ready.sort(key=lambda sequence: sequence.served)
            ready = ready[:left]
        plan.add_decodes(lane, lane.grown(ready))

    def _left(self, lane: Lane, plan: StepPlan) -> int:
        """Tokens of the iteration that this class may still have."""
        return min(plan.portions[lane.limits.cls].left, self._budget - plan.tokens)

    def _prefill(self, lanes: Many[Lane], plan: StepPlan, now: float, *, orphans: bool) -> None:
        """Chunks for the prompts of these classes: those started, oldest first, then newcomers."""
        if self._limits.static:
            for lane in lanes:
                _open_static_batch(lane, plan, now)
        started = [(lane, s) for lane in lanes for s in lane.prefilling(orphans=orphans)]
        alone = len(started) + sum(lane.waiting.clients for lane in lanes) <= 1
        for lane, sequence in _merged(started, lanes):
            plan.add_prefill(lane, sequence, self._chunk(lane, sequence, plan, alone))
        if not self._limits.static:
            self._admit(lanes, plan, now, alone=alone, orphans=orphans)

    def _chunk(self, lane: Lane, sequence: Sequence, plan: StepPlan, alone: bool) -> int:
        """As much of a prompt as its class, the budget and the pace allow."""
        portion = plan.portions[lane.limits.cls]
        left = self._left(lane, plan)
        wanted = min(sequence.left, left if alone else min(left, lane.limits.prefill_chunk))
        part, least = self._prefill_share(lane)
        room = self._pace.room(
            plan.work, sequence.computed, wanted, lane.limits.prefill_chunk, part
        )
        prefills = portion.prefills if self._limits.class_priority else plan.work.prefills
        return max(0, min(wanted, max(room, least - prefills)))

    def _prefill_share(self, lane: Lane) -> tuple[float, int]:
        """Which part of the longest step this class's prompts may fill a step to, and how many of
        their tokens it takes however slow it is."""
        interactive = self._lanes.get(LatencyClass.INTERACTIVE)
        first = lane is interactive or not self._limits.class_priority
        if first or interactive is None or not interactive.serving:
            return 1.0, MIN_PREFILL
        return BESIDE, BACKGROUND_PREFILL if interactive.busy else MIN_PREFILL

    def _draft(self, plan: StepPlan) -> None:
        """Guessed tokens behind those of decodes, each where its row costs less than it is likely
        to save. Not beside prompts: with those a step takes as long as it has rows."""
        if not self._limits.draft_tokens or plan.work.prefills:
            return
        if plan.work.decodes > MOST_DRAFTING:
            return
        only_decodes = replace(plan.work)
        for share in plan.shares:
            sequence, lane, context = share.sequence, share.lane, share.start + 1
            most = min(
                self._limits.draft_tokens,
                self._limits.most_sampled - plan.tokens,
                self._left(lane, plan),
                self._pace.spare_rows(plan.work, context, self._prefill_share(lane)[0]),
                sequence.request.max_tokens - sequence.outputs - 1,
                lane.longest - len(sequence.tokens) - 1,
            )
            guess = sequence.guess(most)
            if guess is not None:
                worth = guess.worth(self._pace.least_chance(only_decodes, context))
                plan.add_drafts(share, guess, lane.reach(sequence, worth))

    def _admit(
        self, lanes: Many[Lane], plan: StepPlan, now: float, *, alone: bool, orphans: bool
    ) -> None:
        """Start who waits while there is budget, a slot and room for the whole prompt."""
        open_lanes = [lane for lane in lanes if _admits(lane, plan, now, orphans)]
        windows = [lane.waiting.window(WINDOW) for lane in open_lanes]
        tries = [(lane, s) for lane in open_lanes for s in in_order(lane)]
        started, refused, closed = set(), set(), set()
        for lane, sequence in _merged(tries, lanes):
            cls = lane.limits.cls
            if cls in closed or not lane.slot_for(sequence):
                continue
            if self._chunk(lane, sequence, plan, alone) == 0:
                closed.add(cls)
            elif lane.admit(sequence, now):
                started.add(sequence.id)
                plan.add_prefill(lane, sequence, self._chunk(lane, sequence, plan, alone))
            else:
                refused.add(sequence.id)
                if impatient(sequence):  # what comes free is kept for it
                    closed.add(cls)
        for window in windows:
            for sequence in passed_over(window, started, refused):
                sequence.skipped += 1

    def _watch(self, plan: StepPlan, now: float) -> None:
        """Notice a worker with work to do that composes nothing, iteration after iteration."""
        if plan.shares or plan.wake_at is not None or not self._live:
            self._empty_plans = 0
            return
        plan.wake_at = now
        self._empty_plans += 1
        if self._empty_plans >= STUCK_AFTER:
            self._empty_plans = 0
            plan.stuck = min(self._live.values(), key=lambda sequence: sequence.submitted)


def _lanes(limits: WorkerLimits) -> dict[LatencyClass, Lane]:
    """Interactive first; block ids are dealt out in the order in which the limits name the
    classes."""
    lanes = {}
    first = 0
    for of_class in limits.classes:
        lanes[of_class.cls] = Lane(of_class, limits, first_block=first)
        first += of_class.kv_blocks
    return {cls: lanes[cls] for cls in LatencyClass if cls in lanes}


def _merged(pairs: list[tuple[Lane, Sequence]], lanes: Many[Lane]) -> list[tuple[Lane, Sequence]]:
    """The order of one class as it is; several classes that share a turn by arrival."""
    return pairs if len(lanes) == 1 else sorted(pairs, key=lambda pair: pair[1].submitted)


def _admits(lane: Lane, plan: StepPlan, now: float, orphans: bool) -> bool:
    """Whether a class lets anyone in: not in an iteration that had to preempt, nor while
    gathering."""
    oldest = lane.waiting.oldest()
    if oldest is None or oldest.orphan != orphans or not lane.slot_for(oldest):
        return False
    preempted = lane.preemptions - plan.portions[lane.limits.cls].preemptions_before
    return not preempted and not gathering(lane, now)


def _open_static_batch(lane: Lane, plan: StepPlan, now: float) -> None:
    """Let the next fixed set of members in, once the last one has ended."""
    if lane.waiting.clients and all(sequence.orphan for sequence in lane.running.values()):
        for orphan in list(lane.running.values()):
            lane.park(orphan)
    group, due = static_batch(lane, now)
    if due is not None:
        plan.wake_at = due if plan.wake_at is None else min(due, plan.wake_at)
    for sequence in group:
        lane.admit(sequence, now)

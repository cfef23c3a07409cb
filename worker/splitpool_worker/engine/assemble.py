"""A planned iteration as the flat rows that a forward pass takes."""

from splitpool_worker.engine.batch import Batch
from splitpool_worker.schedule.step import Share, StepPlan


def assemble(plan: StepPlan, block_size: int) -> Batch:
    """Rows of all shares, in order; block tables are passed by reference."""
    batch = Batch(copies=plan.copies)
    for share in plan.shares:
        _append(batch, share, block_size)
    return batch


def _append(batch: Batch, share: Share, block_size: int) -> None:
    tokens, blocks = share.sequence.tokens, share.sequence.blocks
    start = share.start
    end = start + share.count
    if share.count == 1:  # most shares are decodes, and this runs for each of them in every step
        batch.tokens.append(tokens[start])
        batch.positions.append(start)
        batch.slots.append(blocks[start // block_size] * block_size + start % block_size)
    else:
        batch.tokens.extend(tokens[start : end - share.drafted])
        batch.tokens.extend(share.drafts)
        batch.positions.extend(range(start, end))
        batch.slots.extend(
            [blocks[p // block_size] * block_size + p % block_size for p in range(start, end)]
        )
    batch.query_start.append(len(batch.tokens))
    batch.context_len.append(end)
    batch.block_tables.append(blocks)
    rows = len(batch.tokens)
    batch.sample_rows.extend(range(rows - share.sampled, rows))

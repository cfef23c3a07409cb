"""A planned iteration as the flat rows that a forward pass takes."""

from splitpool_worker.batch import Batch
from splitpool_worker.step import Share


def assemble(shares: list[Share], block_size: int) -> Batch:
    """Rows of all shares, in order; block tables are passed by reference."""
    batch = Batch(
        tokens=[],
        positions=[],
        slots=[],
        query_start=[0],
        context_len=[],
        block_tables=[],
        sample_rows=[],
    )
    for share in shares:
        _append(batch, share, block_size)
    return batch


def _append(batch: Batch, share: Share, block_size: int) -> None:
    blocks = share.sequence.blocks
    end = share.start + share.count
    positions = range(share.start, end)
    batch.tokens.extend(share.sequence.tokens[share.start : end])
    batch.positions.extend(positions)
    batch.slots.extend([blocks[p // block_size] * block_size + p % block_size for p in positions])
    batch.query_start.append(len(batch.tokens))
    batch.context_len.append(end)
    batch.block_tables.append(blocks)
    if share.samples:
        batch.sample_rows.append(len(batch.tokens) - 1)

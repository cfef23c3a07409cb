"""With which status does a command end? Scripts rely on these numbers."""

from splitpool_operator.local import refusals

MEANINGS = {
    0: "done",
    refusals.EXIT_FAILED: "failed",
    refusals.EXIT_BAD_FILE: "wrong usage or pool file",
    refusals.EXIT_DOES_NOT_FIT: "does not fit",
    refusals.EXIT_NO_MODEL: "model missing or unreadable",
    refusals.EXIT_PORT_TAKEN: "port taken",
    refusals.EXIT_NOT_WRITABLE: "output or folder not writable",
}
READY, NOT_READY, CANNOT_TELL = 0, 1, 2
OF_STATUS = {
    READY: "every pool that is shown is ready",
    NOT_READY: "one is not",
    CANNOT_TELL: "cannot tell: wrong usage, no such pool, or no answer from the cluster",
}
OF_BENCH = {
    0: "measured",
    refusals.EXIT_FAILED: "no answer from the server, every request failed, or no rate keeps the "
    "targets",
    refusals.EXIT_BAD_FILE: "wrong usage or trace file",
    refusals.EXIT_NOT_WRITABLE: "report not writable",
}
# As shells see a process that the signal ended.
INTERRUPTED, PIPE_CLOSED = 130, 141


def shown(meanings: dict[int, str]) -> str:
    """As lines of a help text."""
    return "\n".join(f"  {code}  {meaning}" for code, meaning in meanings.items())

"""Which fence does this worker see, on the device that it runs on?"""

from splitpool_worker.config import WorkerConfig
from splitpool_worker.fences import cgroup, gpu, verdict
from splitpool_worker.fences.verdict import Fence


def fence(config: WorkerConfig) -> Fence:
    """Looked for once: no limit of a running process is moved by those who set these."""
    quota = sum(part.vram_bytes for part in config.classes)
    if config.device == "cuda":
        return verdict.on_gpu(gpu.look(), quota)
    return verdict.on_cpu(cgroup.memory_limit(), quota + config.host_memory)

"""`splitpool render FILE`: the objects that the operator makes of a pool file, as YAML."""

import argparse
from importlib.metadata import version

from splitpool import pool_file
from splitpool.output import say
from splitpool.pool_file import Unusable
from splitpool_operator.declaration import plain_yaml
from splitpool_operator.local.refusals import EXIT_BAD_FILE
from splitpool_operator.rendering.installation import Installation
from splitpool_operator.rendering.manifests import children
from splitpool_operator.rendering.sharing import Unsupported

# What the chart tells the operator where no value says otherwise.
WORKER_IMAGE = f"splitpool/worker:{version('splitpool')}"


def run(options: argparse.Namespace) -> int:
    """Print every object; the exit status."""
    plans = pool_file.plans(options.file)
    if isinstance(plans, Unusable):
        return pool_file.complain(plans)
    installation = Installation(worker_image=options.worker_image)
    try:
        manifests = [each for plan in plans for each in children(plan, installation)]
    except Unsupported as error:
        return pool_file.complain(Unusable(code=EXIT_BAD_FILE, message=str(error)))
    say(plain_yaml.dump(*manifests))
    return 0

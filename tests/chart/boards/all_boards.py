"""Which dashboards does the chart bring? Tables in Python here, JSON files in the chart.

`make golden` writes the files.
"""

from chart.boards.pools import POOLS
from chart.boards.scheduler import SCHEDULER
from chart.boards.ttft import TTFT
from chart.boards.vram import VRAM
from cluster.helm import CHART

FOLDER = CHART / "files" / "dashboards"
DASHBOARDS = (POOLS, TTFT, VRAM, SCHEDULER)

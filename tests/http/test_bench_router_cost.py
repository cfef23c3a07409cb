"""Does bench/router_cost.py measure both sides over the same streams?"""

import asyncio
import json
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "bench" / "router_cost.py"


async def test_router_and_pass_through_forward_the_same_streams(tmp_path: Path) -> None:
    found = tmp_path / "found.json"
    script = await asyncio.create_subprocess_exec(
        *(sys.executable, str(SCRIPT), "--streams", "40", "--rounds", "2", "--seconds", "2"),
        *("--requests", "32", "--others", str(tmp_path), "--json", str(found)),
        stdout=asyncio.subprocess.PIPE,
    )
    said, _ = await script.communicate()
    assert script.returncode in (0, 1)  # the bars are the machine's matter
    assert b"bare aiohttp" in said
    details = json.loads(found.read_bytes())["details"]
    assert set(details) == {"splitpool router", "bare aiohttp"}
    for rounds in details.values():
        assert len(rounds) == 2
        for each in rounds:
            assert each["lost"] == 0
            assert each["tokens_per_second"] > 0
            assert each["us_per_token"] >= 0
            assert each["resident"] > 10_000_000

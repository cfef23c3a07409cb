"""`splitpool bench URL`: measure any OpenAI-compatible server, or compare two."""

import argparse
import asyncio
import datetime
import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from splitpool import exits
from splitpool.output import complain, say
from splitpool_operator.local.refusals import EXIT_BAD_FILE, EXIT_FAILED, EXIT_NOT_WRITABLE

if TYPE_CHECKING:
    from splitpool_bench.measuring.options import Options, Server


def run(given: argparse.Namespace) -> int:
    """Measure, report; the exit status."""
    # Here, since the other commands start faster without an HTTP client.
    from splitpool import bench_options

    try:
        options, servers = bench_options.options(given), bench_options.servers(given)
    except bench_options.Misused as error:
        complain(f"{given.prog}: {error}; see {given.prog} --help")
        return EXIT_BAD_FILE
    unwritable = next((said for path in _files(given) if (said := _unwritable(path))), None)
    if unwritable:
        complain(f"{given.prog}: {unwritable}")
        return EXIT_NOT_WRITABLE
    try:
        return _measured(given, options, servers)
    except ModuleNotFoundError as error:
        complain(f"{given.prog}: {error.name} is missing: pip install 'splitpool[bench]'")
        return EXIT_FAILED


def _measured(given: argparse.Namespace, options: "Options", servers: "list[Server]") -> int:
    from splitpool_bench.measuring.session import measure
    from splitpool_bench.measuring.target import CannotMeasure
    from splitpool_bench.report import machine
    from splitpool_bench.reporting import document, tables

    if given.html:
        # What is missing is said before the measurement, not after it.
        from splitpool_bench.reporting import page
    about = machine() | {
        "at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
    }
    try:
        result = asyncio.run(measure(options, servers, about, repeats=given.repeats))
    except CannotMeasure as error:
        complain(f"{given.prog}: {error}")
        return EXIT_FAILED
    failure = None
    try:
        # Files first: whoever reads the table may leave in the middle of it.
        if given.json:
            given.json.write_text(document.dump(result))
        if given.html:
            given.html.write_text(page.page(result))
    except OSError as error:
        failure = f"{given.prog}: {error.filename} cannot be written: {error.strerror}"
    say(tables.text(result))
    if failure:
        complain(failure)
        return EXIT_NOT_WRITABLE
    if result.interrupted:
        return exits.INTERRUPTED
    return 0 if result.succeeded else EXIT_FAILED


def _files(given: argparse.Namespace) -> list[Path]:
    return [path for path in (given.json, given.html) if path is not None]


def _unwritable(path: Path) -> str | None:
    """Why a file could not be written at the end, found at the beginning."""
    if path.is_dir():
        return f"{path} is a folder; name a file in it"
    if not path.absolute().parent.is_dir():
        return f"{path} cannot be written: there is no folder {path.absolute().parent}; make it"
    if not os.access(path if path.exists() else path.absolute().parent, os.W_OK):
        return f"{path} cannot be written: permission denied; write elsewhere"
    return None

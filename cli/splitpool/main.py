"""The `splitpool` command: reads arguments, calls the package that does the work."""

import argparse
import os
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from splitpool import completion, plan_command, render_command, status_command, up_command
from splitpool.plan_command import MODEL_NOTE
from splitpool_operator.declaration import crd

_EPILOG = """\
examples:
  splitpool up examples/smollm2.yaml            serve a pool on this machine
  splitpool up pool.yaml --port 9000 --log-dir logs
  splitpool plan examples/smollm2.yaml          what the quotas hold, before anything starts
  splitpool plan pool.yaml -o json
  splitpool render examples/smollm2.yaml        the objects that the operator makes of it
  splitpool crd -o crds/inferencepools.yaml     the CRD for a cluster
  source <(splitpool completion bash)

exit status:
  0 done   1 failed   2 wrong usage or pool file   3 does not fit   4 model missing
  5 port taken   6 folder not writable
"""


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the console script."""
    options = parser().parse_args(arguments)
    try:
        code = options.run(options)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 1
    except KeyboardInterrupt:
        code = 130
    sys.exit(code)


def parser() -> argparse.ArgumentParser:
    """Every command with its options."""
    root = argparse.ArgumentParser(
        prog="splitpool",
        description="One model, an interactive and a batch pool, each with a hard VRAM quota.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    root.add_argument("--version", action="version", version=f"splitpool {version('splitpool')}")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)
    _up(commands.add_parser("up", help="serve a pool file on this machine"))
    _plan(commands.add_parser("plan", help="show what the quotas of a pool file hold"))
    _render(commands.add_parser("render", help="print the objects that the operator applies"))
    _status(commands.add_parser("status", help="show a pool of a cluster at a glance"))
    _crd(commands.add_parser("crd", help="print the CustomResourceDefinition"))
    _completion(commands.add_parser("completion", help="print a completion script"))
    return root


def _up(command: argparse.ArgumentParser) -> None:
    command.description = "Start every worker and the router of a pool file; Ctrl-C drains them."
    _file(command)
    command.add_argument("--host", default="127.0.0.1", help="address of the router (%(default)s)")
    command.add_argument(
        "--port", type=_port, default=8080, help="port of the router (%(default)s)"
    )
    command.add_argument(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="keep endpoints.json, logs/ and steps/ here (default: a private folder, removed)",
    )
    command.add_argument("--log-dir", type=Path, metavar="DIR", help="keep the log files here")
    command.add_argument(
        "--worker-flag", action="append", default=[], help="pass one argument to every worker"
    )
    command.add_argument(
        "--router-flag", action="append", default=[], help="pass one argument to the router"
    )
    command.set_defaults(run=up_command.run)


def _plan(command: argparse.ArgumentParser) -> None:
    command.description = f"Show GPU by GPU and class by class what a pool holds. {MODEL_NOTE}"
    _file(command)
    command.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="(%(default)s)"
    )
    command.set_defaults(run=plan_command.run)


def _render(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print the Kubernetes objects of a pool file as the operator applies them, but for the "
        "owner references, which only a cluster knows."
    )
    _file(command)
    command.add_argument(
        "--worker-image",
        default=render_command.WORKER_IMAGE,
        help="of pools that name none in podTemplate (%(default)s)",
    )
    command.set_defaults(run=render_command.run)


def _status(command: argparse.ArgumentParser) -> None:
    command.description = "..."
    add = command.add_argument
    add("name", nargs="?", metavar="NAME", help="of the pool (default: a table of all pools)")
    where = command.add_mutually_exclusive_group()
    where.add_argument("-n", "--namespace", help="of the pool (default: the context's)")
    where.add_argument(
        "-A", "--all-namespaces", action="store_true", help="the pools of all namespaces"
    )
    add("--context", help="of the kubeconfig (default: its current one)")
    add("--kubeconfig", type=Path, metavar="FILE", help="(default: KUBECONFIG, ~/.kube/config)")
    add("-o", "--output", choices=("text", "json", "yaml"), default="text", help="(%(default)s)")
    add("-w", "--watch", action="store_true", help="show it again whenever it changes")
    command.set_defaults(run=status_command.run, prog="splitpool")


def _crd(command: argparse.ArgumentParser) -> None:
    command.description = "Print the CustomResourceDefinition of inferencepools.splitpool.dev."
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there")
    command.set_defaults(run=_write_crd)


def _completion(command: argparse.ArgumentParser) -> None:
    command.description = (
        "Print a script for your shell, as in: source <(splitpool completion bash)"
    )
    command.add_argument("shell", choices=completion.SHELLS)
    command.set_defaults(run=lambda options: _print(completion.script(options.shell, parser())))


def _file(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="pools in YAML, or - for stdin")


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; write 1 to 65535")
    return int(text)


def _print(text: str) -> int:
    print(text, end="")
    return 0


def _write_crd(options: argparse.Namespace) -> int:
    if options.output is None:
        return _print(crd.as_yaml())
    try:
        options.output.write_text(crd.as_yaml())
    except OSError as error:
        print(f"splitpool: {options.output} cannot be written: {error.strerror}", file=sys.stderr)
        return 6
    return 0

"""Which commands are there, with which options, and what does each teach?"""

import argparse
import textwrap
from importlib.metadata import version
from pathlib import Path

from splitpool import (
    bench_command,
    bench_options,
    completion,
    crd_command,
    exits,
    plan_command,
    render_command,
    status_command,
    up_command,
)
from splitpool.guided_parser import GuidedParser

PROG = "splitpool"
_DESCRIPTION = """\
One model, an interactive and a batch pool on the same GPUs, each with a hard VRAM quota.

On one machine:   plan shows what fits, up serves it, bench measures it.
In a cluster:     kubectl apply -f FILE, then status says how the pool is.
"""
_DESCRIPTIONS = {
    "up": "Start the router and every worker of a pool file on this machine. Ctrl-C drains: what "
    "was accepted is answered; a second Ctrl-C stops at once.",
    "plan": "Show GPU by GPU and class by class what a pool holds, before anything starts. "
    f"{plan_command.MODEL_NOTE}",
    "status": "Show a pool of a cluster at a glance: what is declared, the workers, quota and time "
    "to first token of each class, the conditions that matter, pods in trouble, recent events, and "
    "in the last line what to do where something is wrong. Without NAME: a table of all pools. The "
    "cluster and the namespace are those that kubectl would use.",
    "bench": "Measure any OpenAI-compatible server: time to the first token, per token and in all, "
    "per class and length of prompt, in an open loop (arrivals never wait for answers), along a "
    "capacity curve, in a closed loop, or from a trace. --goodput finds the highest rate that "
    "keeps what users accept; --compare says which of two servers is better, or that there is no "
    "difference. It says when the load generator itself was the limit.",
    "render": "Print the Kubernetes objects of a pool file as the operator applies them, but for "
    "the owner references, which only a cluster knows.",
    "crd": "Print the CustomResourceDefinition of inferencepools.splitpool.dev.",
    "completion": "Print a script that completes commands and options in your shell.",
}
_EXAMPLES = {
    "": """\
splitpool up examples/smollm2.yaml       serve a pool on this machine
splitpool plan examples/smollm2.yaml     what the quotas hold, before anything starts
splitpool status                         the pools of the cluster that kubectl talks to
splitpool status assistant -n team       one of them, and what to do where something is wrong
splitpool COMMAND --help                 options and examples of a command""",
    "up": """\
splitpool up examples/smollm2.yaml
splitpool up pool.yaml --port 9000 --log-dir logs
splitpool up pool.yaml --host 0.0.0.0    for other machines too""",
    "plan": """\
splitpool plan examples/smollm2.yaml
splitpool plan pool.yaml -o json
splitpool plan - < pool.yaml""",
    "render": """\
splitpool render pool.yaml --worker-image registry.example.com/splitpool/worker:1
splitpool render pool.yaml | kubectl diff --server-side --force-conflicts -f -""",
    "status": """\
splitpool status                         the pools of the context's namespace
splitpool status -A                      those of all namespaces
splitpool status assistant -n team       one pool: classes, conditions, pods, events, what to do
splitpool status assistant --watch
kubectl splitpool status assistant       the same, as a plugin of kubectl
until splitpool status assistant > /dev/null; do sleep 5; done""",
    "bench": """\
splitpool bench http://127.0.0.1:8080    200 requests, Poisson, 1/s
splitpool bench http://127.0.0.1:8080 --rate 4 --requests 1000 --html report.html
splitpool bench http://127.0.0.1:8080 --rates 1,2,4,8 --seconds 60 --json curve.json
splitpool bench http://127.0.0.1:8080 --users 64 --requests 64     64 at once
splitpool bench http://127.0.0.1:8080 --rate 2 --beside 8    interactive beside 8 batch jobs
splitpool bench http://127.0.0.1:8080 --goodput --ttft-p99 500 --tpot-p99 50
splitpool bench --compare http://127.0.0.1:8080 http://127.0.0.1:9000 --rate 2""",
    "crd": """\
splitpool crd | kubectl apply --server-side -f -
splitpool crd -o crds/inferencepools.yaml""",
    "completion": """\
source <(splitpool completion bash)
splitpool completion zsh > ~/.zfunc/_splitpool
splitpool completion fish > ~/.config/fish/completions/splitpool.fish""",
}


def parser(prog: str = PROG) -> argparse.ArgumentParser:
    """Every command with its options; prog: how the command is called."""
    root = GuidedParser(prog=prog, description=_DESCRIPTION, epilog=_epilog("", prog))
    root.add_argument("--version", action="version", version=f"splitpool {version('splitpool')}")
    commands = root.add_subparsers(title="commands", metavar="COMMAND", required=True)

    def command(name: str, summary: str) -> argparse.ArgumentParser:
        text = textwrap.fill(_DESCRIPTIONS[name], 78)
        return commands.add_parser(name, help=summary, description=text, epilog=_epilog(name, prog))

    _up(command("up", "serve a pool file on this machine"))
    _plan(command("plan", "show what the quotas of a pool file hold"))
    _status(command("status", "show how a pool of a cluster is, and what to do"), prog)
    _bench(command("bench", "measure a server, or compare two"))
    _render(command("render", "print the objects that the operator applies"))
    _crd(command("crd", "print the CustomResourceDefinition"))
    _completion(command("completion", "print a completion script"))
    return root


def by_name(root: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parser of every command."""
    (action,) = (each for each in root._actions if isinstance(each, argparse._SubParsersAction))
    return dict(action.choices)


def summaries(root: argparse.ArgumentParser) -> dict[str, str]:
    """A line for every command."""
    (action,) = (each for each in root._actions if isinstance(each, argparse._SubParsersAction))
    return {each.dest: each.help or "" for each in action._choices_actions}


def _epilog(command: str, prog: str) -> str:
    examples = "\n".join(f"  {line}" for line in _EXAMPLES[command].splitlines())
    if prog != PROG:
        examples = examples.replace(f"  {PROG} ", f"  {prog} ")
    own = {"status": exits.OF_STATUS, "bench": exits.OF_BENCH}
    meanings = own.get(command, exits.MEANINGS)
    return f"examples:\n{examples}\n\nexit status:\n{exits.shown(meanings)}\n"


def _up(command: argparse.ArgumentParser) -> None:
    _file(command)
    add = command.add_argument
    add("--host", default="127.0.0.1", help="address of the router (%(default)s)")
    add("--port", type=_port, default=8080, help="port of the router (%(default)s)")
    add(
        "--state-dir",
        type=Path,
        metavar="DIR",
        help="keep endpoints.json, logs/ and steps/ here (default: a private folder, removed)",
    )
    add("--log-dir", type=Path, metavar="DIR", help="keep the log files here")
    add("--worker-flag", action="append", default=[], help="pass one argument to every worker")
    add("--router-flag", action="append", default=[], help="pass one argument to the router")
    command.set_defaults(run=up_command.run)


def _plan(command: argparse.ArgumentParser) -> None:
    _file(command)
    command.add_argument(
        "-o", "--output", choices=("table", "json"), default="table", help="form (%(default)s)"
    )
    command.set_defaults(run=plan_command.run)


def _status(command: argparse.ArgumentParser, prog: str) -> None:
    add = command.add_argument
    add("name", nargs="?", metavar="NAME", help="of the pool (default: a table of all pools)")
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "-n", "--namespace", metavar="NAMESPACE", help="of the pool (default: the context's)"
    )
    where.add_argument(
        "-A", "--all-namespaces", action="store_true", help="the pools of all namespaces"
    )
    add("--context", metavar="CONTEXT", help="of the kubeconfig (default: its current one)")
    add(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="where the cluster is (default: $KUBECONFIG, else ~/.kube/config)",
    )
    forms = ("text", "json", "yaml")
    add("-o", "--output", choices=forms, default="text", help="form (%(default)s)")
    add("-w", "--watch", action="store_true", help="go on until Ctrl-C: every 2 seconds anew")
    command.set_defaults(run=status_command.run, prog=prog)


def _bench(command: argparse.ArgumentParser) -> None:
    bench_options.declare(command)
    command.set_defaults(run=bench_command.run, prog=command.prog)


def _render(command: argparse.ArgumentParser) -> None:
    _file(command)
    command.add_argument(
        "--worker-image",
        metavar="IMAGE",
        default=render_command.WORKER_IMAGE,
        help="of pools that name none in podTemplate (%(default)s)",
    )
    command.set_defaults(run=render_command.run)


def _crd(command: argparse.ArgumentParser) -> None:
    command.add_argument("-o", "--output", type=Path, metavar="FILE", help="write it there")
    command.set_defaults(run=crd_command.run)


def _completion(command: argparse.ArgumentParser) -> None:
    command.add_argument("shell", choices=completion.SHELLS, help="which shell")
    command.set_defaults(run=lambda options: completion.run(options, parser()))


def _file(command: argparse.ArgumentParser) -> None:
    command.add_argument("file", type=Path, metavar="FILE", help="pools in YAML, or - for stdin")


def _port(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is no port; write 1 to 65535")
    return int(text)

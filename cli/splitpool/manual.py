"""What does each command do, with which options and exit statuses? As a Markdown page."""

import argparse
from collections.abc import Iterator, Mapping

from splitpool import commands, exits

_INTRO = """\
# The splitpool command

This page is generated from the command's own help (`make golden`); `splitpool COMMAND --help` says
the same.

Pools are declared in YAML ([fields](inferencepool.md)). On one machine, `plan` shows what fits and
`up` serves it. In a cluster, `kubectl apply` declares a pool and `status` says how it is. `bench`
measures any server that speaks the API ([how](benchmarking.md)).

"""
_STATUS = """\
The last line says what to do where something is wrong. Output is coloured on terminals only
(`NO_COLOR` is respected) and as wide as the terminal; in a pipe nothing is cut. `-o json` and
`-o yaml` give everything that is shown, sizes in bytes and ages in seconds, for one pool as an
object and for several as a list.

Who may `get` the pool sees it; `list` on pods and events adds the pods in trouble and what happened
lately. The kubeconfig is read as kubectl reads it: `KUBECONFIG` with several files, contexts,
client certificates, tokens and login programs (`exec`). In a pod without a kubeconfig it is the
pod's service account that asks.

### As a plugin of kubectl

The package brings `kubectl-splitpool`; where that is on the PATH, kubectl finds it:
`kubectl splitpool status assistant -n team`. With `kubectl_complete-splitpool` beside it, kubectl's
own completion knows the commands, the options and the names of pools.
"""


def page() -> str:
    """The whole page."""
    root = commands.parser()
    names = commands.by_name(root)
    parts = [_INTRO, _contents(root, names)]
    for name, command in names.items():
        parts += [f"\n## {name}\n\n{_unwrapped(command.description)}\n\n", *_usage(command)]
        parts += ["\n", *_examples(command)]
        if name == "status":
            parts += ["\n", _STATUS]
    parts += ["\n## Exit statuses\n\n", *_statuses()]
    return "".join(parts)


def _contents(root: argparse.ArgumentParser, names: Mapping[str, argparse.ArgumentParser]) -> str:
    summaries = commands.summaries(root)
    rows = "".join(f"| [`{name}`](#{name}) | {summaries[name]} |\n" for name in names)
    return f"| command | |\n|---|---|\n{rows}"


def _unwrapped(text: str | None) -> str:
    return " ".join((text or "").split())


def _usage(command: argparse.ArgumentParser) -> Iterator[str]:
    yield "| | |\n|---|---|\n"
    for action in command._actions:
        if action.dest != "help":
            yield f"| {_shape(action)} | {_meaning(action)} |\n"


def _shape(action: argparse.Action) -> str:
    """As it is typed."""
    metavar = action.metavar or action.dest.upper()
    if isinstance(metavar, tuple):
        metavar = " ".join(metavar)
    if action.choices:
        words = " ".join(f"`{each}`" for each in action.choices)
        return " ".join((", ".join(f"`{each}`" for each in action.option_strings), words)).strip()
    if not action.option_strings:
        return f"`[{metavar}]`" if action.nargs == "?" else f"`{metavar}`"
    value = "" if action.nargs == 0 else f" {metavar}"
    return ", ".join(f"`{word}{value}`" for word in action.option_strings)


def _meaning(action: argparse.Action) -> str:
    text = (action.help or "") % {"default": action.default}
    return text.replace("|", "\\|")


def _examples(command: argparse.ArgumentParser) -> Iterator[str]:
    epilog = command.epilog or ""
    lines = epilog.partition("examples:\n")[2].partition("\n\n")[0].splitlines()
    yield "```sh\n"
    for line in lines:
        typed, _, said = line.strip().partition("   ")
        yield f"{typed}  # {said.strip()}\n" if said else f"{typed}\n"
    yield "```\n"


def _statuses() -> Iterator[str]:
    rows = {**exits.MEANINGS, exits.INTERRUPTED: "ended by Ctrl-C"}
    rows[exits.PIPE_CLOSED] = "whoever read the output went away, as in `splitpool crd \\| head`"
    yield "| status | meaning | of `status` | of `bench` |\n|---|---|---|---|\n"
    for code, meaning in rows.items():
        own = (exits.OF_STATUS.get(code, ""), exits.OF_BENCH.get(code, ""))
        yield f"| {code} | {meaning} | {' | '.join(own)} |\n"

"""How does what the cluster says reach whoever asked: as a page, a table or data, and how often?"""

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from splitpool import exits
from splitpool.output import complain, say
from splitpool.status import look as looks
from splitpool.status.advice import advice
from splitpool.status.api import Api
from splitpool.status.connecting import connected
from splitpool.status.document import document
from splitpool.status.glance import Glance, glance
from splitpool.status.listing import listing
from splitpool.status.reading import NoSuchPool, Unanswered, snapshot, snapshots
from splitpool.status.screen import page
from splitpool.status.snapshot import Snapshot
from splitpool.status.watching import watch
from splitpool_kube.access import NoAccess
from splitpool_operator.declaration import plain_yaml

# Between two pages where the last one is not replaced.
_BETWEEN = {"text": "\n", "yaml": "---\n", "json": ""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What is asked: one pool, or all of a namespace or of all namespaces; and how it is shown."""

    name: str | None
    namespace: str | None
    output: str
    # How kubectl asks the same cluster and namespace, and how this command is called.
    kubectl: str
    prog: str


def run(options: argparse.Namespace) -> int:
    """Show it once, or until Ctrl-C; the exit status."""
    try:
        return asyncio.run(_run(options))
    except (NoAccess, Unanswered, NoSuchPool) as error:
        complain(f"{options.prog}: {error}")
        return exits.CANNOT_TELL


async def _run(options: argparse.Namespace) -> int:
    async with connected(options.kubeconfig, options.context) as api:
        question = _question(options, api)
        if options.watch:
            await watch(
                lambda: _ask(api, question),
                lambda seen, gap: _text(seen, question, gap),
                live=question.output == "text" and sys.stdout.isatty(),
                between=_BETWEEN[question.output],
            )
        seen = await _ask(api, question)
        say(_text(seen, question))
        return exits.READY if all(glance(each).ready for each in seen) else exits.NOT_READY


def _question(options: argparse.Namespace, api: Api) -> Question:
    namespace = None if options.all_namespaces else options.namespace or api.namespace
    kubectl = ["kubectl"]
    if options.context:
        kubectl += ["--context", options.context]
    if namespace is not None:
        kubectl += ["-n", namespace]
    return Question(
        name=options.name,
        namespace=namespace,
        output=options.output,
        kubectl=" ".join(kubectl),
        prog=options.prog,
    )


async def _ask(api: Api, question: Question) -> list[Snapshot]:
    """Raises NoSuchPool, Unanswered."""
    if question.name is None or question.namespace is None:
        return await snapshots(api, question.namespace)
    return [await snapshot(api, question.namespace, question.name)]


def _text(seen: Sequence[Snapshot], question: Question, gap: str = "") -> str:
    """gap: why it is not newer."""
    pools = [glance(each) for each in seen]
    if question.output != "text":
        return _data(pools, question)
    look = looks.of(sys.stdout)
    text = _for_people(pools, question, look)
    return text + "\n" + "\n".join(look.wrapped(gap, 0)) + "\n" if gap else text


def _data(pools: Sequence[Glance], question: Question) -> str:
    shown = [document(each, advice(each, question.kubectl)) for each in pools]
    whole = shown if question.name is None else shown[0]
    if question.output == "yaml":
        return plain_yaml.dump(whole)
    return json.dumps(whole, indent=2) + "\n"


def _for_people(pools: Sequence[Glance], question: Question, look: looks.Look) -> str:
    if question.name is not None:
        (only,) = pools
        return page(only, advice(only, question.kubectl), look)
    if pools:
        return listing(pools, look, everywhere=question.namespace is None, prog=question.prog)
    if question.namespace is None:
        return "there are no InferencePools\n"
    return f"namespace {question.namespace} has no InferencePools; -A shows all namespaces\n"

"""A measurement as one HTML page: figures, plots and doubts, without scripts or other files."""

from collections.abc import Iterable, Iterator, Sequence
from html import escape

from splitpool_bench.exchange import Outcome
from splitpool_bench.measuring.doubts import doubts
from splitpool_bench.measuring.figures import by_class
from splitpool_bench.measuring.point import Point
from splitpool_bench.measuring.result import Measured, Result
from splitpool_bench.measuring.verdict import Comparison, compare, middle_and_spread, verdict
from splitpool_bench.reporting import plots, tables

_STYLE = """
:root { color-scheme: light; }
body { font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Helvetica, Arial, sans-serif;
  color: #1b1b1b; background: #f6f6f4; margin: 0; }
main { max-width: 1120px; margin: 0 auto; padding: 24px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 19px; margin: 32px 0 8px; }
p { margin: 6px 0; } .quiet { color: #5c5c5c; }
section { background: #fff; border: 1px solid #e2e2de; border-radius: 8px; padding: 14px 18px;
  margin: 12px 0; overflow-x: auto; }
.headline { font-size: 18px; font-weight: 600; }
.doubts { border-left: 5px solid #E69F00; } .doubts li { margin: 3px 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 13px; }
th, td { text-align: right; padding: 3px 8px; border-bottom: 1px solid #ececea;
  white-space: nowrap; }
.compared td:last-child, .compared th:last-child { text-align: left; }
th { color: #5c5c5c; font-weight: 600; } th:first-child, td:first-child { text-align: left; }
tr.whole td { font-weight: 600; }
svg { max-width: 100%; height: auto; display: block; margin: 8px 0; }
summary { cursor: pointer; font-weight: 600; } code { font-size: 13px; word-break: break-all; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 16px; margin: 6px 0; }
dt { color: #5c5c5c; } dd { margin: 0; }
"""


def page(result: Result) -> str:
    """The whole page."""
    title = " and ".join(server.url for server in result.servers)
    return "\n".join(
        (
            "<!doctype html>",
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f"<title>splitpool bench: {escape(title)}</title><style>{_STYLE}</style></head>",
            f"<body><main><h1>splitpool bench</h1><p class=quiet>{escape(title)}</p>",
            *_body(result),
            "</main></body></html>\n",
        )
    )


def _body(result: Result) -> Iterator[str]:
    yield _section(*_headline(result))
    if said := doubts(result):
        items = "".join(f"<li>{escape(line)}</li>" for line in said)
        yield f'<section class="doubts"><b>What to doubt</b><ul>{items}</ul></section>'
    if len(result.servers) > 1:
        yield from _comparison(result)
    for number, server in enumerate(result.servers):
        side = f"{'AB'[number]}: " if len(result.servers) > 1 else ""
        yield from _server(server, result, side)
    yield "<h2>How it was measured</h2>"
    yield _section(_definitions(_asked(result)), _definitions(_MEANINGS))


def _headline(result: Result) -> Iterator[str]:
    if len(result.servers) > 1:
        yield _big(verdict(compare(*(server.points for server in result.servers))))
    for server in result.servers:
        if said := tables.goodput(server, result.options):
            yield _big(said)
    if result.interrupted:
        yield _big("interrupted: points that were not whole are left out")
    yield f"<p>{escape(tables.workload(result.options))}</p>"


def _comparison(result: Result) -> Iterator[str]:
    a, b = (server.points for server in result.servers)
    found = compare(a, b)
    yield "<h2>A against B</h2>"
    yield _section(
        f"<div class=compared>{_comparison_table(found)}</div>", plots.comparison(found, (a, b))
    )


def _comparison_table(found: Sequence[Comparison]) -> str:
    rows = [
        (
            f"{each.name} ({each.unit})",
            middle_and_spread(each.a),
            middle_and_spread(each.b),
            f"{each.ratio:.3f}",
            each.said,
        )
        for each in found
    ]
    return _table(("median [least..greatest]", "A", "B", "B / A", "verdict"), rows)


def _server(server: Measured, result: Result, side: str) -> Iterator[str]:
    yield f"<h2>{escape(f'{side}{server.model} at {server.url}')}</h2>"
    targets = result.options.targets
    if sum(point.rate is not None for point in server.points) > 1 and not side:
        yield _section(plots.curve(server.points, result.options.mix.latency_class, targets))
    if drawn := plots.parts(server.points):
        agreements = [each.said() for point in server.points for each in point.agreements]
        said = "".join(f"<p class=quiet>{escape(each)}</p>" for each in agreements)
        yield _section(drawn, said)
    if server.repeated:
        yield _section(f"<p><b>{escape(tables.repeats(server))}</b></p>", _figures(server.outcomes))
    shown = _shown(server)
    for point in server.points:
        yield _section(_point(point, open_=point is shown))


def _shown(server: Measured) -> Point | None:
    """The point whose details are open: that of the goodput, else the last."""
    if server.goodput and server.goodput.rate is not None:
        rate = server.goodput.rate
        return next((point for point in server.points if point.rate == rate), None)
    return server.points[-1] if server.points else None


def _point(point: Point, *, open_: bool) -> str:
    beside = ""
    if point.beside:
        others = [tables.row(each) for each in by_class(point.beside)[:1]]
        beside = f"<p class=quiet>beside it, ended meanwhile</p>{_table(tables.HEADER, others)}"
    state = " open" if open_ else ""
    drawn = plots.details(point)
    return (
        f"<p><b>{escape(tables.load(point))}</b></p>{_figures(point.outcomes)}{beside}"
        f"<details{state}><summary>plots</summary>{drawn}</details>"
    )


def _figures(outcomes: Sequence[Outcome]) -> str:
    found = by_class(outcomes)
    rows = [tables.row(each) for each in found]
    return _table(tables.HEADER, rows, bold=[each.group == "all" for each in found])


def _asked(result: Result) -> dict[str, str]:
    return {key: str(value) for key, value in result.about.items()} | {
        f"tokens of {server.url}": f"counted by its {server.counting}" for server in result.servers
    }


_MEANINGS = {
    "TTFT": "first content received - request sent, on the load generator's clock",
    "TPOT": "(last token - first token) / (output tokens - 1) of one request",
    "ITL": "every gap between events with content",
    "e2e": "last byte - request sent",
    "rej, fail": "refused with 429 or 503; failed otherwise",
    "p99 [95 %]": "with its bootstrap interval; gaps of one answer hang together, so the p99 of "
    "ITL has none",
}


def _definitions(known: dict[str, str]) -> str:
    rows = "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in known.items())
    return f"<dl>{rows}</dl>"


def _table(
    header: Iterable[str], rows: Sequence[Sequence[str]], *, bold: Sequence[bool] = ()
) -> str:
    head = "".join(f"<th>{escape(each)}</th>" for each in header)
    body = "".join(
        f"<tr{' class=whole' if number < len(bold) and bold[number] else ''}>"
        f"{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"
        for number, row in enumerate(rows)
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _section(*parts: str) -> str:
    return f"<section>{''.join(parts)}</section>"


def _big(text: str) -> str:
    return f'<p class="headline">{escape(text)}</p>'

"""ClearML's `Task.get_reported_scalars()`, saved as JSON: {"title": {"series": {"x": [...], "y": [...]}}}."""

from __future__ import annotations

import re
from typing import Any

from maxlogit.importer._log import Log, numeric, whole
from maxlogit.importer._source import Source
from maxlogit.importer.formats._format import Format
from maxlogit.importer.formats.json_lines import Decoder


def _reads(source: Source, log: Log, options: Any) -> None:
    try:
        found = Decoder()(source.text)
        graphs = {f"{title}/{name}": graph for title, series in found.items() for name, graph in series.items()}
        points = [(name, list(zip(graph["x"], graph["y"]))) for name, graph in graphs.items()]
    except (ValueError, AttributeError, KeyError, TypeError):
        raise log.error("not what ClearML's get_reported_scalars returns") from None
    log.step_found = "x"
    for name, values in points:
        for x, y in values:
            step = whole(x)
            if step is None:
                raise log.error(f"{name}: x {x!r:.40} is not a whole number from 0 on: get_reported_scalars(x_axis='iter')")
            log.put(step, {name: numeric(y)}, alone=True)


FORMAT = Format(
    name="clearml",
    what="the result of ClearML's `Task.get_reported_scalars()`, saved as JSON",
    file="scalars.json",
    example='{"loss": {"train": {"x": [0, 10], "y": [3.5, 2.5]}, "val": {"x": [10], "y": [2.75]}}}\n',
    wanted={"loss": {0: 3.5, 10: 2.5}, "val_loss": {10: 2.75}},
    knows=lambda source: bool(re.match(r'\s*\{\s*"[^"]*":\s*\{\s*"[^"]*":\s*\{[^{}]*"(x|y)":\s*\[', source.head)),
    reads=_reads,
)

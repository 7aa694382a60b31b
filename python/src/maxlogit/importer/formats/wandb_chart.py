"""Charts that Weights & Biases exports: "RUN - METRIC", with minima and maxima of what was drawn."""

from __future__ import annotations

from typing import Optional

from maxlogit.importer.formats._format import Format, Layout


def _layout(names: list[str]) -> Optional[Layout]:
    if not any(name.endswith(("__MIN", "__MAX")) and " - " in name for name in names):
        return None
    columns: list[Optional[tuple[str, str]]] = []
    for name in names:
        run, dash, metric = name.rpartition(" - ")
        columns.append((run, metric) if dash and not metric.startswith("_step") else None)
    return Layout(columns)


FORMAT = Format(
    name="wandb",
    what="a chart of Weights & Biases as CSV; its columns `__MIN` and `__MAX` are series where they differ from the values. "
    "A history (`run.history()`, `scan_history()`) is a table or JSON lines",
    file="wandb_export.csv",
    example='"Step","layers4-h8 - train/loss","layers4-h8 - train/loss__MIN","layers4-h8 - train/loss__MAX"\n'
    '"0","3.5","3.5","3.5"\n"10","2.5","2.5","2.5"\n',
    wanted={"loss": {0: 3.5, 10: 2.5}},
    table=_layout,
)

"""Tables that trackers export: charts of Weights & Biases, and long tables, one value per row, as of MLflow and Aim."""

from __future__ import annotations

from typing import Optional

from maxlogit.importer._log import METRIC_NAMES, QUALIFIERS, RUNS, STEP_NAMES
from maxlogit.importer._names import ALIASES
from maxlogit.importer.formats._format import Format, Layout


def _chart(names: list[str]) -> Optional[Layout]:
    """ "RUN - METRIC", with minima and maxima of what was drawn."""
    if not any(name.endswith(("__MIN", "__MAX")) and " - " in name for name in names):
        return None
    columns: list[Optional[tuple[str, str]]] = []
    for name in names:
        run, dash, metric = name.rpartition(" - ")
        columns.append((run, metric) if dash and not metric.startswith("_step") else None)
    return Layout(columns)


def _long(names: list[str]) -> Optional[Layout]:
    value = next((i for i, name in enumerate(names) if name in ("value", "Value")), -1)
    name = next((i for i, name in enumerate(names) if name in METRIC_NAMES), -1)
    has_others = any("loss" in ALIASES.get(other.lower(), "") for i, other in enumerate(names) if i not in (value, name))
    if (
        value < 0
        or has_others
        or (name < 0 and not set(names) <= {"Value", "value", "Wall time", "wall_time", "timestamp", *STEP_NAMES})
    ):
        return None
    runs = tuple(i for i, name in enumerate(names) if name in RUNS)
    prefixes = tuple(i for i, name in enumerate(names) if name in QUALIFIERS or name.startswith("metric.context"))
    return Layout([None] * len(names), name, value, runs, prefixes)


FORMATS = [
    Format(
        name="wandb",
        what="a chart of Weights & Biases as CSV; its columns `__MIN` and `__MAX` are series where they differ from the values. "
        "A history (`run.history()`, `scan_history()`) is a table or JSON lines",
        file="wandb_export.csv",
        example='"Step","layers4-h8 - train/loss","layers4-h8 - train/loss__MIN","layers4-h8 - train/loss__MAX"\n'
        '"0","3.5","3.5","3.5"\n"10","2.5","2.5","2.5"\n',
        wanted={"loss": {0: 3.5, 10: 2.5}},
        table=_chart,
    ),
    Format(
        name="aim",
        what="Aim's `metric.dataframe(...)` as CSV, several metrics below each other; the context is part of the name",
        file="aim.csv",
        example=",idx,step,value,epoch,time,run.hash,run.hparams.lr,metric.name,metric.context.subset\n"
        "0,0,0,3.5,0,2026-01-01 10:00:00,d9e8,0.01,loss,train\n1,1,10,2.5,0,2026-01-01 10:01:00,d9e8,0.01,loss,train\n"
        "0,0,10,2.75,0,2026-01-01 10:01:00,d9e8,0.01,loss,val\n",
        wanted={"loss": {0: 3.5, 10: 2.5}, "val_loss": {10: 2.75}},
        table=lambda names: _long(names) if "metric.name" in names else None,
    ),
    Format(
        name="long",
        what="a long table, one value per row: columns key, value and step, as MLflow's metrics; also the CSV of "
        "TensorBoard's page",
        file="metrics.csv",
        example="run_id,key,value,timestamp,step\n7f,train_loss,3.5,1700000000,0\n7f,train_loss,2.5,1700000009,10\n"
        "7f,val_loss,2.75,1700000009,10\n",
        wanted={"loss": {0: 3.5, 10: 2.5}, "val_loss": {10: 2.75}},
        table=_long,
    ),
]

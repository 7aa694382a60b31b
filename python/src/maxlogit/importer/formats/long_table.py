"""Long tables, one value per row: of MLflow and of TensorBoard's own export."""

from __future__ import annotations

from typing import Optional

from maxlogit.importer._log import QUALIFIERS, RUNS, STEP_NAMES
from maxlogit.importer.formats._format import Format, Layout

_NAMES = ("key", "metric", "metric_name", "metric.name", "tag", "variable", "name")


def _layout(names: list[str]) -> Optional[Layout]:
    value = next((i for i, name in enumerate(names) if name in ("value", "Value")), -1)
    name = next((i for i, name in enumerate(names) if name in _NAMES), -1)
    if value < 0 or (name < 0 and not set(names) <= {"Value", "value", "Wall time", "wall_time", "timestamp", *STEP_NAMES}):
        return None
    runs = tuple(i for i, name in enumerate(names) if name in RUNS)
    prefixes = tuple(i for i, name in enumerate(names) if name in QUALIFIERS or name.startswith("metric.context"))
    return Layout([None] * len(names), name, value, runs, prefixes)


FORMAT = Format(
    name="long",
    what="a long table, one value per row: columns key, value and step, as MLflow's metrics; also the CSV of "
    "TensorBoard's page",
    file="metrics.csv",
    example="run_id,key,value,timestamp,step\n7f,train_loss,3.5,1700000000,0\n7f,train_loss,2.5,1700000009,10\n"
    "7f,val_loss,2.75,1700000009,10\n",
    wanted={"loss": {0: 3.5, 10: 2.5}, "val_loss": {10: 2.75}},
    table=_layout,
)

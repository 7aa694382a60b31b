"""NeMo's lines of progress; its progress bars are those of tqdm."""

from __future__ import annotations

from typing import Optional

from maxlogit.importer._log import whole
from maxlogit.importer.formats._format import Format, Lines, Printed, Row

_LINE = Lines(
    "raining epoch ", r"Training epoch \d+, iteration (?P<step>\d+)/\d+ \|", r"(?P<name>[^|:]{1,95}):\s*NUMBER\s*(?:\||$)"
)


def _line(line: str, state: Printed) -> Optional[Row]:
    row = _LINE(line, state)
    if not row or "global_step" not in row.values:  # iterations begin anew with each epoch
        return row
    return Row(whole(row.values["global_step"]), {name: x for name, x in row.values.items() if name != "global_step"})


FORMAT = Format(
    name="nemo",
    what="lines of NeMo; steps are its global_step",
    example="Training epoch 0, iteration 9/9 | lr: 5.6e-06 | global_step: 9 | reduced_train_loss: 2.75 | "
    "train_step_timing in s: 0.189\n0: Training epoch 1, iteration 0/9 | lr: 5.8e-06 | global_step: 10 | "
    "reduced_train_loss: 2.5 | train_step_timing in s: 0.19 | val_loss: 2.875\n",
    wanted={"loss": {9: 2.75, 10: 2.5}, "lr": {9: 5.6e-6, 10: 5.8e-6}, "val_loss": {10: 2.875}},
    line=_line,
)

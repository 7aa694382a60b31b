"""Dictionaries as Hugging Face's Trainer, axolotl and ms-swift print them."""

from __future__ import annotations

import re
from typing import Optional

from maxlogit.importer._log import as_printed, flat, whole
from maxlogit.importer.formats._format import Format, Printed, Row
from maxlogit.importer.formats.json_lines import Decoder


def _line(line: str, state: Printed) -> Optional[Row]:
    begin = re.search("{['\"]", line)
    try:
        found = Decoder()(line[begin.start() : line.rfind("}") + 1]) if begin else None
    except ValueError:
        return None
    values = {name: as_printed(x) for name, x in flat(found)} if isinstance(found, dict) else {}
    for name in list(values):
        step = whole(values[name]) if state.log.is_step(name) else None
        if step is not None:
            state.log.step_found = state.log.step_found or name
            return Row(step, {key: x for key, x in values.items() if key != name})
    trained = any("loss" in name or "reward" in name for name in values) and "train_runtime" not in values
    return Row(None, values) if trained else None


FORMAT = Format(
    name="trainer",
    what="dictionaries that Hugging Face's Trainer, axolotl and ms-swift print. They have no steps: "
    "the progress bar beside them has the step; without one, the rows with a loss are numbered",
    example="{'loss': 2.5, 'grad_norm': nan, 'learning_rate': 1e-05, 'epoch': 0.01}\n"
    " 10%|#         | 5/50 [00:10<01:30,  2.0s/it]\r{'eval_loss': 2.25, 'eval_runtime': 0.5, 'epoch': 0.02}\n"
    " 20%|##        | 10/50 [00:20<01:20,  2.0s/it]{'loss': 2.0, 'grad_norm': 1.0, 'learning_rate': 2e-05, 'epoch': 0.02}\n"
    " 20%|##        | 10/50 [00:20<01:20,  2.0s/it]\n",
    wanted={"loss": {5: 2.5, 10: 2}, "lr": {5: 1e-5, 10: 2e-5}, "val_loss": {10: 2.25}},
    line=_line,
)

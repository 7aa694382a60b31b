"""OLMo: a line with the step, and below it an indented one for each value."""

from __future__ import annotations

import re
from typing import Optional

from maxlogit.importer.formats._format import Format, Lines, Printed, Row

_HEAD = re.compile(r"\[step=(\d{1,15})[/,\]]")
_VALUE = Lines("=", "", r"^\s{2,}(?P<name>[A-Za-z][^=]*)=NUMBER")


def _line(line: str, state: Printed) -> Optional[Row]:
    match = _HEAD.search(line) if "[step=" in line else None
    if match:
        state.step = int(match[1])
    values = _VALUE.pairs(line) if state.step is not None and line[:2].isspace() and "=" in line else None
    return Row(state.step, values) if values else None


FORMAT = Format(
    name="olmo",
    what="blocks of OLMo, `[step=10/7000]` with an indented line for each value",
    example="2026-09-01 10:00:00 host:0 olmo.train:816 INFO [step=10/7000,epoch=0]\n    train/CrossEntropyLoss=10.50\n"
    "    optim/total_grad_norm=1.250\n    throughput/total_tokens=4,194,304\n",
    wanted={"loss": {10: 10.5}, "grad_norm": {10: 1.25}, "throughput/total_tokens": {10: 4194304}},
    line=_line,
)

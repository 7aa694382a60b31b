"""OLMo and Composer: a line with the step, and below it an indented one for each value."""

from __future__ import annotations

import re
from typing import Optional

from maxlogit.importer.formats._format import Format, Lines, Printed, Row

_HEAD = re.compile(
    r"(?:\[epoch=(?P<epoch>\d{1,15})[^\[\]]*\])?\[(?P<what>step|batch)=(?P<at>\d{1,15})(?:/(?P<total>\d{1,15}))?[,\]]"
)
_VALUE = Lines("", "", r"^\s{2,}(?P<name>[A-Za-z][^=:]*)(?:=|: +)NUMBER")


def _line(line: str, state: Printed) -> Optional[Row]:
    match = _HEAD.search(line) if "=" in line else None
    if match:
        at = int(match["at"])
        of_epoch = (
            match["epoch"]
            and match["what"] == "batch"
            and Row(None, {}, epoch=int(match["epoch"]), at=at, total=int(match["total"] or 0), within=True)
        )
        state.block = of_epoch or Row(at, {})
    values = _VALUE.pairs(line) if state.block and line[:2].isspace() else None
    return state.block._replace(values=values) if state.block and values else None


FORMAT = Format(
    name="olmo",
    what="blocks of OLMo and Composer, `[step=10/7000]`, `[batch=10/7000]` or `[epoch=1][batch=10/700]`, with an indented line "
    "for each value",
    example="2026-09-01 10:00:00 host:0 olmo.train:816 INFO [step=10/7000,epoch=0]\n    train/CrossEntropyLoss=10.50\n"
    "    optim/total_grad_norm=1.250\n    throughput/total_tokens=4,194,304\n",
    wanted={"loss": {10: 10.5}, "grad_norm": {10: 1.25}, "throughput/total_tokens": {10: 4194304}},
    line=_line,
)

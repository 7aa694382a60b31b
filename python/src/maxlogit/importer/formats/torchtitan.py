"""torchtitan: "step:  1  loss:  8.2  grad_norm: ..", in colors, perhaps a line for each rank."""

from __future__ import annotations

from typing import Optional

from maxlogit.importer.formats._format import Format, Lines, Printed, Row

_LINE = Lines(
    "step: ",
    r"(?:^|- |\s)(?P<prefix>validate )?step: *(?P<step>\d+)(?=\s{2})",
    r"(?P<name>[A-Za-z][\w/]{0,95}(?: [A-Za-z][\w/]{0,95})?): *NUMBER",
)


def _line(line: str, state: Printed) -> Optional[Row]:
    row = _LINE(line, state)
    return row._replace(prefix="validation") if row and row.prefix else row


FORMAT = Format(
    name="torchtitan",
    what="lines of torchtitan, with or without colors. Where the lines of several ranks differ, the rank is part of the name",
    example="[rank0]:2026-09-01 10:00:00,123 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss:  8.25000  \x1b[38;2;180;60;0m"
    "grad_norm:  1.5000  \x1b[36mmemory:  4.50GiB(5.50%)  \x1b[34mtps: 12,345  \x1b[35mmfu: 30.50%\x1b[39m\n"
    "[rank1]:2026-09-01 10:00:00,124 - root - INFO - step:  1  loss:  8.25000  grad_norm:  1.5000  memory:  4.75GiB(5.75%)  "
    "tps: 12,345  mfu: 30.50%\n[rank0]:2026-09-01 10:00:09,123 - root - INFO - validate step:  1  loss:  8.1250  "
    "memory:  4.50GiB(5.50%)  tps: 9,999\n",
    wanted={"loss": {1: 8.25}, "grad_norm": {1: 1.5}, "val_loss": {1: 8.125}, "tps": {1: 12345}, "rank1/memory": {1: 4.75}},
    line=_line,
)

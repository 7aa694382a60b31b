"""Lines of programs that are not known: a step, and pairs of names and numbers, a loss among them."""

from __future__ import annotations

from typing import Optional

from maxlogit.importer.formats._format import Format, Lines, Printed, Row

_LINE = Lines(
    "",
    r"(?i)\b(?:global[_ ]?)?(?:step|iter|iteration)s?\b\W{0,3}(?P<step>\d+)\b(?![.%])",
    r"(?<![\w/.@-])(?P<name>[A-Za-z_][\w/.@-]{0,95}(?: [A-Za-z_][\w/.@-]{0,95})?)\s{0,8}[=:]\s{0,8}NUMBER",
)


def _line(line: str, state: Printed) -> Optional[Row]:
    row = _LINE(line, state)
    return row if row and any("loss" in name.lower() for name in row.values) else None


FORMAT = Format(
    name="lines",
    what="any other line with a step and pairs NAME=NUMBER or NAME: NUMBER behind it, a loss among them",
    example="INFO epoch 0, Step: 10/100, train_loss=2.5, lr: 1e-3\n",
    wanted={"loss": {10: 2.5}, "lr": {10: 1e-3}},
    line=_line,
)

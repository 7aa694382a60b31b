"""Megatron-LM's training_log, and its lines of evaluations."""

from __future__ import annotations

import re
from typing import Optional

from maxlogit.importer._log import whole
from maxlogit.importer.formats import other_lines
from maxlogit.importer.formats._format import Format, Printed, Row

_EVALUATION = re.compile(
    r"(?P<what>\S{0,60}validation\S{0,60}) loss at iteration (?P<step>\d{1,15})"
    r"(?: on (?P<set>\w+) set)?(?: \[(?P<of>[^\]]{1,200})\])?[^|]{0,200}\|"
)


def _line(line: str, state: Printed) -> Optional[Row]:
    """What qualifies an evaluation is part of its names: "on test set", "validation-NAME"."""
    match = _EVALUATION.search(line) if "loss at iteration" in line else None
    if not match:
        return other_lines.line(line, state)
    prefix = "/".join(part for part in (f"{match['set']} set" if match["set"] else match["what"], match["of"]) if part)
    values, _ = other_lines.pairs(line[match.end() - 1 :])
    return Row(whole(match["step"]), values, prefix) if values else None


FORMAT = Format(
    name="megatron",
    what="lines of Megatron-LM; its max attention logit is one number for the whole model, and is never below 0",
    example=" [2026-09-01 10:00:00] iteration        1/     100 | learning rate: 1.000000E-04 | "
    "lm loss: 1.050000E+01 | grad norm: 7.500 | max attention logit: 3.250 | number of nan iterations:   0 |\n"
    " validation loss at iteration 1 on validation set | lm loss value: 1.025000E+01 | lm loss PPL: 2.828E+04 | \n"
    " validation loss at iteration 1 on test set | lm loss value: 1.037500E+01 | lm loss PPL: 3.204E+04 | \n",
    wanted={
        "loss": {1: 10.5},
        "lr": {1: 1e-4},
        "grad_norm": {1: 7.5},
        "attn/max_logit": {1: 3.25},
        "val_loss": {1: 10.25},
        "test_loss": {1: 10.375},
    },
    line=_line,
)

"""MaxText: "completed step: 10, seconds: 1.5, ..., loss: 9.5"."""

from maxlogit.importer.formats._format import Format, Lines

_TRAINING = Lines("completed step: ", r"completed step: (?P<step>\d+),", r"(?P<name>[A-Za-z_][\w/ ]{0,95}): NUMBER")
_EVALUATION = Lines(
    "eval metrics after step",
    r"(?P<prefix>eval) metrics after step: (?P<step>\d+),",
    r"(?P<name>[A-Za-z_][\w/ ]{0,95})(?:=|: )NUMBER",
)

FORMAT = Format(
    name="maxtext",
    what="lines of MaxText, `completed step: 10, .., loss: ..`",
    example="completed step: 10, seconds: 1.500, TFLOP/s/device: 105.500, Tokens/s/device: 3679.500, total_weights: 99, "
    "loss: 9.500\neval metrics after step: 10, loss=9.750, total_weights=75264.0\n",
    wanted={"loss": {10: 9.5}, "val_loss": {10: 9.75}, "seconds": {10: 1.5}},
    line=lambda line, state: _TRAINING(line, state) or _EVALUATION(line, state),
)

"""llm.c: what it prints, and its main.log ("s:10 trl:3.5 lr:0.0006 norm:1.2")."""

from maxlogit.importer.formats._format import Format, Lines

_LOG = Lines(
    "s:",
    r"^s:(?P<step>\d+) (?=tel|trl|eval)",
    r"(?<![a-z])(?P<name>[a-z]+):NUMBER",
    {"trl": "train loss", "tel": "val loss", "norm": "grad norm"},
)
_PRINTED = Lines(
    "step",
    r"^step +(?P<step>\d+)/\d+ (?=\| loss)",
    r"\| *(?P<name>[a-z]+) NUMBER",
    {"norm": "grad norm", "loss": "train loss"},
)

FORMAT = Format(
    name="llm.c",
    what="llm.c's `main.log`, and the lines that it prints",
    file="main.log",
    example="s:0 tel:11.0000\ns:1 trl:10.5000 lr:0.000600 norm:1.25\n"
    "step    2/19560 | loss 10.250000 (+nanz)| norm 1.5000 (+nanz)| lr 6.00e-04 | 99.50 ms | 50.5% bf16 MFU | 12345 tok/s\n",
    wanted={"loss": {1: 10.5, 2: 10.25}, "val_loss": {0: 11}, "grad_norm": {1: 1.25, 2: 1.5}, "lr": {1: 6e-4, 2: 6e-4}},
    line=lambda line, state: _LOG(line, state) or _PRINTED(line, state),
)

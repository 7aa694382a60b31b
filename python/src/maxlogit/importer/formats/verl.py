"""verl: "step:1 - actor/entropy:0.5 - ..."."""

from maxlogit.importer.formats._format import Format, Lines

FORMAT = Format(
    name="verl",
    what="lines of verl and other trainers of its family, `step:1 - actor/entropy:0.5 - ..`",
    example="(pid=99) step:1 - actor/entropy:0.5 - actor/grad_norm:np.float64(1.25) - val-core/gsm8k/acc/mean@1:0.75\n",
    wanted={"actor/entropy": {1: 0.5}, "grad_norm": {1: 1.25}, "val-core/gsm8k/acc/mean_1": {1: 0.75}},
    line=Lines("step:", r"(?:^|\s)step:(?P<step>\d+)(?= - )", r" - (?P<name>\S+?):NUMBER(?=\)| |$)"),
)

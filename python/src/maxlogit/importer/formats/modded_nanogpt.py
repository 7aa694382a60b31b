"""modded-nanogpt: "step:10/5100 train_loss:3.5 train_time:99ms"."""

from maxlogit.importer.formats._format import Format, Lines

FORMAT = Format(
    name="modded-nanogpt",
    what="lines of modded-nanogpt, `step:10/5100 train_loss:..`",
    example="step:0/5100 val_loss:10.8258 train_time:0ms step_avg:nanms\nstep:1/5100 train_loss:10.8250 train_time:99ms\n",
    wanted={"loss": {1: 10.825}, "val_loss": {0: 10.8258}},
    line=Lines("step:", r"(?:^|\s)step:(?P<step>\d+)/\d+(?=[\s,])", r"(?P<name>[A-Za-z_][\w/.]{0,95}):NUMBER"),
)

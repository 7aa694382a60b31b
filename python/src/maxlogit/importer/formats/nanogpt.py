"""nanoGPT: "iter 10: loss 3.5, time 99.00ms, mfu 30.00%"."""

from maxlogit.importer.formats._format import Format, Lines

FORMAT = Format(
    name="nanogpt",
    what="lines of nanoGPT, `iter 10: loss .., time ..` and `step 250: train loss .., val loss ..`",
    example="step 0: train loss 10.75, val loss 10.875\niter 0: loss 10.5000, time 99.00ms, mfu -100.00%\n",
    wanted={"loss": {0: 10.5}, "train_loss": {0: 10.75}, "val_loss": {0: 10.875}},
    line=Lines("", r"\b(?:iter|step) (?P<step>\d+):(?= [a-z])", r"(?P<name>[A-Za-z][A-Za-z_ ]{0,95}?) NUMBER"),
)

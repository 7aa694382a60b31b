"""nanochat: "step 00010/05000 (0.20%) | loss: 9.5 | ..."."""

from maxlogit.importer.formats._format import Format, Lines

FORMAT = Format(
    name="nanochat",
    what="lines of nanochat, `step 00010/05000 (0.20%)` and values between bars",
    example="Step 00000 | Validation bpb: 3.125\n"
    "step 00010/05000 (0.20%) | loss: 9.500000 | lrm: 1.00 | dt: 99.50ms | tok/sec: 12,345 | mfu: 50.50\n",
    wanted={"loss": {10: 9.5}, "Validation_bpb": {0: 3.125}, "tok/sec": {10: 12345}},
    line=Lines(
        "tep",
        r"\b[Ss]tep:? +(?P<step>\d+)(?:/\d+)?(?: \([\d.]+%\))? *(?=\|)",
        r"\| *(?P<name>[A-Za-z][^|:]{0,95}?)(?::| )\s{0,8}NUMBER",
    ),
)

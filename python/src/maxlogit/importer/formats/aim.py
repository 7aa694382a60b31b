"""Tables of Aim's metrics: `metric.dataframe(include_name=True, include_context=True, include_run=True)`."""

from maxlogit.importer.formats import long_table
from maxlogit.importer.formats._format import Format

FORMAT = Format(
    name="aim",
    what="Aim's `metric.dataframe(...)` as CSV, several metrics below each other; the context is part of the name",
    file="aim.csv",
    example=",idx,step,value,epoch,time,run.hash,run.hparams.lr,metric.name,metric.context.subset\n"
    "0,0,0,3.5,0,2026-01-01 10:00:00,d9e8,0.01,loss,train\n1,1,10,2.5,0,2026-01-01 10:01:00,d9e8,0.01,loss,train\n"
    "0,0,10,2.75,0,2026-01-01 10:01:00,d9e8,0.01,loss,val\n",
    wanted={"loss": {0: 3.5, 10: 2.5}, "val_loss": {10: 2.75}},
    table=lambda names: long_table.FORMAT.table(names) if "metric.name" in names else None,  # type: ignore[misc]
)

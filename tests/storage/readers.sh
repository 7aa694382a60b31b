#!/bin/sh
# readers: h5dump, h5py and xarray read run files and checkpoints without this program; absent ones are skipped
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
small_run a preset=muonclip qk_clip.tau=0.5 record.batches=1 checkpoint.every=20
checkpoint=$(ls "$dir"/a.ckpt/step-*.h5 | tail -n 1)

if command -v h5dump > /dev/null; then
  for file in "$dir/a.h5" "$checkpoint"; do
    h5dump "$file" > "$dir/dump" 2> "$dir/problems" || fail "h5dump $file"
    test -s "$dir/problems" && { cat "$dir/problems"; fail "h5dump complains about $file"; }
  done
  h5dump -A -d /series/attn/max_logit "$dir/a.h5" | grep -q 'DIMENSION_LIST' || fail "no dimension scales"
else
  echo "h5dump: skipped, not installed"
fi

"$program" export "$dir/a.h5" attn/max_logit > "$dir/exported" || fail "export"
python=$(python_with h5py)
if test "$python"; then
  "$python" - "$dir/a.h5" "$checkpoint" "$dir/exported" <<'END' || fail "h5py"
import sys
import h5py
import numpy as np
f, c = h5py.File(sys.argv[1], "r"), h5py.File(sys.argv[2], "r")
assert f.attrs["format"] == "maxlogit run" and f["status"].attrs["state"] == "finished"
assert f["parameters"].attrs["train.steps"] == 40 and f["parameters"].attrs["qk_clip.tau"] == 0.5
assert isinstance(f["parameters"].attrs["optimizer"], str)
d = f["series/attn/max_logit"]
assert d.shape == (40, 2, 2) and d.dtype == np.float32 and d.fletcher32 and d.compression == "gzip"
assert [x.label for x in d.dims] == ["step", "layer", "head"]
assert [[x[0].name for x in d.dims], [len(x) for x in d.dims]] == [["/series/" + x.label for x in d.dims], [1, 1, 1]]
for axis in d.dims:
    scale = axis[0]
    assert h5py.h5ds.is_scale(scale.id) and h5py.h5ds.get_scale_name(scale.id).decode() == axis.label
    uses = [(f[use].name, dim) for use, dim in scale.attrs["REFERENCE_LIST"]]
    assert (d.name, [x.label for x in d.dims].index(axis.label)) in uses and len(set(uses)) == len(uses)
assert (d.dims[0][0][:] == np.arange(40)).all() and d.attrs["units"] and d.attrs["definition"]
text = np.loadtxt(sys.argv[3])
assert np.array_equal(text[:, 1:].astype(np.float32), d[:].reshape(40, 4))
e = f["events"][:]
assert (e["kind"] == b"clip").any() and set(e.dtype.names) == {"step", "kind", "layer", "head", "value"}
tokens = f["batches/tokens"]
assert tokens.shape == (40, 4, 17) and tokens.dtype.kind == "i"
assert c.attrs["step"] == 40 and c["params/blocks.0.attn.w_q"].shape == (16, 16)
assert c["params/norm"].shape == (16,)
assert "steps = 40" in c["parameters/config"][0].decode()
END
else
  echo "h5py: skipped, not installed"
fi

python=$(python_with xarray,h5netcdf)
if test "$python"; then
  "$python" - "$dir/a.h5" <<'END' || fail "xarray"
import sys
import xarray
top = xarray.open_dataset(sys.argv[1], engine="h5netcdf", group="series")
assert top.loss.dims == ("step",) and top.step.size == 40 and top.val_loss.dims == ("val_step",)
assert top.loss.attrs["long_name"] and float(top.loss.sel(step=39)) == float(top.loss[39])
attn = xarray.open_dataset(sys.argv[1], engine="h5netcdf", group="series/attn")
assert attn.max_logit.dims == ("step", "layer", "head")
assert xarray.open_dataset(sys.argv[1], engine="h5netcdf", group="batches").tokens.dims[0] == "step"
END
else
  echo "xarray: skipped, not installed"
fi
finish

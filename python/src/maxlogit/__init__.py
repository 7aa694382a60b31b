"""Run files of maxlogit, written and read; the numbers of attention: max logits, spectra, clips.

    with maxlogit.Recorder("run.h5", config={"optimizer": "muon", "train.seed": 1}) as recorder:
        recorder.log(step, loss=loss, **{"attn/max_logit": logits})     # logits [layer, head]
    run = maxlogit.open("run.h5")
    run["attn/max_logit"]                                               # an array [row, layer, head]

`maxlogit.torch` watches a PyTorch model and clips it; nothing else here needs PyTorch.
"""

from maxlogit._library import MaxlogitError, MissingFile, UsageError, library_path
from maxlogit._numbers import Spectrum, attention_maxima, clip_factors, clip_factors_mla, form_bounds, spectra
from maxlogit._read import Event, Run, Series, open, open_all
from maxlogit._record import MISSING, Recorder

__version__ = "0.1.0"
__all__ = [
    "MISSING",
    "Event",
    "MaxlogitError",
    "MissingFile",
    "Recorder",
    "Run",
    "Series",
    "Spectrum",
    "UsageError",
    "attention_maxima",
    "clip_factors",
    "clip_factors_mla",
    "form_bounds",
    "library_path",
    "open",
    "open_all",
    "spectra",
]

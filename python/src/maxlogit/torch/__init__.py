"""A PyTorch model's attention, watched and clipped.

recorder = maxlogit.Recorder("run.h5", config={"optimizer": "muon"})
maxlogit.torch.watch(model, recorder)
clip = maxlogit.torch.QKClip(model, tau=100, recorder=recorder)
for step, batch in enumerate(batches):
    loss = model(batch); loss.backward(); optimizer.step(); optimizer.zero_grad()
    clip.step()
    recorder.log(step, loss=loss)
"""

from __future__ import annotations

from typing import Optional

from torch import Tensor

from maxlogit.torch import _attention
from maxlogit.torch._clip import CannotClip, QKClip
from maxlogit.torch._layout import Fused, Latent, Rows, Separate, UnknownLayout
from maxlogit.torch._logits import Mask, max_logits
from maxlogit.torch._watch import Watch, watch


def see(q: Tensor, k: Tensor, *, scale: Optional[float] = None, causal: bool = False, mask: Optional[Tensor] = None) -> None:
    """For attention that a model writes out by itself: call it there, with queries [batch, heads, queries, size] and keys
    [batch, kv_heads, keys, size] as they are multiplied. scale None: size^-1/2; causal: query i sees keys up to i; mask
    [..., queries, keys]: bool (True: seen), or added to the logits. Costs nothing while nobody watches."""
    _attention.see_by_hand(q, k, scale, Mask(0 if causal else None, 0, _attention.four(mask)))


__all__ = [
    "CannotClip",
    "Fused",
    "Latent",
    "Mask",
    "QKClip",
    "Rows",
    "Separate",
    "UnknownLayout",
    "Watch",
    "max_logits",
    "see",
    "watch",
]

"""What the callbacks of trainers share."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from maxlogit._record import Recorder, is_present

_OF_WATCH = ("every", "spectra_every", "layouts", "on_error", "group")


class Training:
    """One training of a model by somebody's loop. A resumed training goes on in the same file."""

    def __init__(self, path: Any, clip: Optional[dict[str, Any]], options: dict[str, Any]) -> None:
        self.path, self.clip_options = path, clip
        self.watch_options = {key: options.pop(key) for key in _OF_WATCH if key in options}
        self.options = options
        self.recorder: Optional[Recorder] = None
        self.latest: dict[str, float] = {}
        self.last = self.waiting = -1

    def begin(self, model: Any, optimizer: Any, step: int, rank: int, config: dict[str, Any]) -> None:
        from maxlogit import torch as mt

        self.end()
        self.last, self.waiting = step - 1, -1
        options = {"config": config, "rank": rank, **({"mode": "resume"} if step else {}), **self.options}
        forward = options.pop("forward", [])
        forward = list(forward) if isinstance(forward, (list, tuple)) else [forward]
        self.recorder = Recorder(self.path, **options, forward=[*forward, self._keep])
        self.watch = mt.watch(model, self.recorder, **self.watch_options)
        self.clip = None
        if self.clip_options is not None:
            inner = getattr(optimizer, "optimizer", optimizer)  # accelerate wraps it
            self.clip = mt.QKClip(model, optimizer=inner, recorder=self.recorder, **self.clip_options)

    def _keep(self, step: int, values: dict[str, Any]) -> None:
        for name in ("attn/max_logit", "qk_clip/gamma"):
            known = np.asarray(values.get(name, []), dtype=float).ravel()
            known = known[is_present(known)]
            if known.size:
                self.latest[name] = float(known.max() if name.startswith("attn") else known.min())

    def step(self, step: int) -> None:
        """A step of the optimizer is done; its row waits for what the trainer reports of it."""
        self.flush()
        if self.recorder is None or step <= self.last:
            return
        self.last = self.waiting = step
        if self.clip is not None:
            self.clip.step()
        self.recorder._ask(step)

    def flush(self, values: Optional[dict[str, Any]] = None) -> None:
        """Write the row that waits, or add to the last one."""
        if self.recorder is not None and (self.waiting >= 0 or (values and self.last >= 0)):
            self.recorder.log(self.last, values or {})
            self.waiting = -1

    def end(self, state: str = "finished") -> None:
        self.flush()
        recorder, self.recorder = self.recorder, None
        if recorder is None:
            return
        self.watch.close()
        if self.clip is not None:
            self.clip.close()
        recorder.close(state)

"""A callback for the Trainer of transformers.

callback = maxlogit.transformers.MaxLogitCallback("run.h5", clip={"tau": 100})
trainer = Trainer(model, args, ..., callbacks=[callback])
callback.attach(trainer)        # optional: the trainer's own loggers get the largest logit, too
trainer.train()
"""

from __future__ import annotations

from typing import Any, Optional

from transformers import TrainerCallback

from maxlogit._callback import Training


class MaxLogitCallback(TrainerCallback):  # type: ignore[misc]
    """Watches the model of a Trainer and logs every step; with ``clip``, a mapping of QKClip's arguments (``{}``: all as they
    are), it clips behind every step of the optimizer. Other arguments: those of Recorder, and ``every``, ``spectra_every``,
    ``layouts``, ``on_error`` of watch."""

    def __init__(self, path: Any, *, clip: Optional[dict[str, Any]] = None, **options: Any) -> None:
        self.training = Training(path, clip, options)

    def attach(self, trainer: Any) -> MaxLogitCallback:
        """Stand before the trainer's loggers, so that they get ``attn/max_logit`` with what the trainer logs."""
        callbacks = trainer.callback_handler.callbacks
        if self in callbacks:
            callbacks.remove(self)
        callbacks.insert(0, self)
        return self

    def on_train_begin(self, args: Any, state: Any, control: Any, model: Any = None, **more: Any) -> None:
        config = {} if args is None else {k: v for k, v in args.to_dict().items() if isinstance(v, (int, float, str, bool))}
        self.training.begin(model, more.get("optimizer"), state.global_step, getattr(args, "process_index", 0), config)

    def on_step_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.training.step(state.global_step - 1)

    def on_log(self, args: Any, state: Any, control: Any, logs: Optional[dict[str, Any]] = None, **more: Any) -> None:
        if logs is None:
            return
        numbers = {
            k: v for k, v in logs.items() if isinstance(v, (int, float)) and k in ("loss", "grad_norm", "learning_rate")
        }
        if "eval_loss" in logs:
            numbers["val_loss"] = logs["eval_loss"]
        self.training.flush(numbers)
        logs.update(self.training.latest)
        if state.log_history:
            state.log_history[-1].update(self.training.latest)

    def on_train_end(self, args: Any, state: Any, control: Any, **more: Any) -> None:
        self.training.end()

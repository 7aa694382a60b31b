"""What ranks agree on before they reduce anything."""

from __future__ import annotations

import hashlib
from typing import Any, Optional

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from maxlogit import MISSING


def is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def device_of(group: Any) -> torch.device:
    """Where the group's collectives take tensors from: a processor if it can."""
    if "cpu:" in torch.distributed.get_backend_config(group):
        return torch.device("cpu")
    accelerator = getattr(torch, "accelerator", None)  # from PyTorch 2.6 on
    if accelerator is not None and accelerator.is_available():
        return torch.device(accelerator.current_accelerator().type, accelerator.current_device_index())
    return torch.device("cuda", torch.cuda.current_device())


class Rows:
    """Rows of all ranks, by name: ranks may have other modules, or none. What is known of a row has a kind of state (of the
    clip), which all ranks share, too."""

    def __init__(self, group: Any = None) -> None:
        self.group = group
        self.order: list[str] = []
        self.heads: dict[str, int] = {}

    def agree(self, order: list[str], heads: dict[str, int], states: Optional[dict[str, Any]] = None) -> dict[str, Any]:
        """Join the rows of this rank with those of the others; heads: 0 where a module has not run. Returns the states of
        all ranks, a rank's own first."""
        self._join(order, heads)
        states = dict(states or {})
        if not is_distributed():
            return states
        text = repr((self.order, sorted(self.heads.items()), sorted((row, _kind(state)) for row, state in states.items())))
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=7).digest(), "big")
        both = torch.tensor([number, -number], device=device_of(self.group))
        torch.distributed.all_reduce(both, torch.distributed.ReduceOp.MAX, group=self.group)
        largest, least = int(both[0]), -int(both[1])
        if largest == least:
            return states
        ranks: list[Any] = [None] * torch.distributed.get_world_size(self.group)
        unknown = {row for row, count in heads.items() if count} - states.keys()
        torch.distributed.all_gather_object(ranks, (self.order, self.heads, states, unknown), group=self.group)
        self.order = []
        for theirs, their_heads, *_ in ranks:
            self._join(theirs, their_heads)
        for _, _, their_states, _ in ranks:
            for row, state in their_states.items():
                # what one refuses all refuse, or replicas diverge
                if row not in states or _strength(state) > _strength(states[row]):
                    states[row] = state
                elif getattr(state, "zeros", False) and not _strength(states[row]):
                    states[row] = states[row]._replace(zeros=True)
        for row in {row for *_, unknown in ranks for row in unknown}:
            if getattr(states.get(row), "is_part", False):  # another rank's heads are no use to one that has its own
                del states[row]
        return states

    def _join(self, order: list[str], heads: dict[str, int]) -> None:
        """New ones behind those that they follow."""
        after = -1
        for row in order:
            if row in self.order:
                after = self.order.index(row)
            else:
                after += 1
                self.order.insert(after, row)
            self.heads[row] = max(self.heads.get(row, 0), heads.get(row, 0))

    def reduce(self, found: dict[str, Tensor]) -> npt.NDArray[np.float32]:
        """The maxima as [rows, heads] over all ranks; MISSING where there is none."""
        most = max(self.heads.values())
        device = device_of(self.group) if is_distributed() else next(iter(found.values())).device if found else None
        table = torch.full((len(self.order), most), -torch.inf, device=device)
        for i, row in enumerate(self.order):
            if row in found:
                table[i, : found[row].shape[-1]] = found[row].to(table.device)
        if is_distributed():
            # whether NaN is above all depends on the backend
            broken = torch.isnan(table).float()
            both = torch.stack((table.nan_to_num(nan=torch.inf, posinf=torch.inf, neginf=-torch.inf), broken))
            torch.distributed.all_reduce(both, torch.distributed.ReduceOp.MAX, group=self.group)
            table = both[0].masked_fill(both[1] > 0, torch.nan)
        result: npt.NDArray[np.float32] = table.cpu().numpy()
        result[np.isneginf(result)] = MISSING
        return result

    def sum(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        if not is_distributed():
            return values
        table = torch.from_numpy(values).to(device_of(self.group))
        torch.distributed.all_reduce(table, group=self.group)
        result: npt.NDArray[np.float64] = table.cpu().numpy()
        return result

    def largest(self, number: int) -> int:
        if not is_distributed():
            return number
        found = torch.tensor([number], device=device_of(self.group))
        torch.distributed.all_reduce(found, torch.distributed.ReduceOp.MAX, group=self.group)
        return int(found[0])


def _strength(state: Any) -> int:
    return (1 if state == "frozen" else 2) if isinstance(state, str) else 0


def _kind(state: Any) -> str:
    return f"{_strength(state)} {getattr(state, 'zeros', '')}"

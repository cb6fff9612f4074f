"""Processes that train together, each with a share of the rows; torch.distributed connects them."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor, nn

from ccml.objectives import Pool

_PATIENCE = timedelta(seconds=50)  # with a process that doesn't answer in the middle of a step


@dataclass(frozen=True)
class Ranks:
    """A process among those that train together; by default it is alone.

    All of them call the same methods in the same order. One that has gone away makes the others
    raise an error that says so.
    """

    rank: int = 0
    size: int = 1
    device: str | torch.device = "cpu"
    steps: Any = None  # the group that exchanges tensors on the device, and doesn't wait for long
    words: Any = None  # the group for everything else, which may have to wait for work of one rank

    @property
    def is_first(self) -> bool:
        """Whether it is this process that reports and saves."""
        return self.rank == 0

    def add_up(self, tensor: Tensor) -> Tensor:
        """Sum a tensor over the processes, in place; all get the same bits."""
        if self.size > 1:
            with _or_gone():
                dist.all_reduce(tensor, group=self.steps)
        return tensor

    def total(self, array: NDArray[Any]) -> NDArray[Any]:
        """Sum an array over the processes."""
        if self.size == 1:
            return array
        return self.add_up(torch.tensor(array, device=self.device)).cpu().numpy()

    def gather(self, value: Any) -> list[Any]:
        """Return what each process gives, in their order."""
        values = [value] * self.size
        if self.size > 1:
            with _or_gone():
                dist.all_gather_object(values, value, group=self.words)
        return values

    def first(self, value: Any) -> Any:
        """Return what the first process gives."""
        values = [value]
        if self.size > 1:
            with _or_gone():
                dist.broadcast_object_list(values, src=0, group=self.words)
        return values[0]

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let what fails in one process fail in all, instead of leaving them to wait for it."""
        if self.size == 1:
            yield
            return
        failure = None
        try:
            yield
        except Exception as error:
            failure = error
        told = self.gather(None if failure is None else f"{type(failure).__name__}: {failure}")
        if failure is not None:
            raise failure
        for rank, what in enumerate(told):
            if what is not None:
                raise RuntimeError(f"Process {rank} of this training stopped. {what}")

    def copy_first(self, module: nn.Module) -> None:
        """Give all processes the weights of the first: a user's module may draw its own in each."""
        if self.size > 1:
            state = {name: value.cpu() for name, value in module.state_dict().items()}
            module.load_state_dict(self.first(state))

    def average(self, parameters: Sequence[nn.Parameter], loss: Tensor) -> Tensor:
        """Replace gradients by their mean over the processes; return the mean of the loss."""
        loss = loss.detach()
        if self.size == 1:
            return loss
        gradients = [torch.zeros_like(p) if p.grad is None else p.grad for p in parameters]
        flat = torch.cat([*(gradient.flatten() for gradient in gradients), loss.reshape(1)])
        means = (self.add_up(flat) / self.size).split([*(p.numel() for p in parameters), 1])
        for parameter, mean in zip(parameters, means[:-1], strict=True):
            parameter.grad = mean.view_as(parameter).to(parameter.dtype)
        return means[-1][0]

    def average_buffers(self, module: nn.Module) -> None:
        """Give all processes the mean of running statistics; each has seen rows of its own."""
        for buffer in module.buffers() if self.size > 1 else ():
            if buffer.is_floating_point():
                mean = self.add_up(buffer.to(torch.float64, copy=True)) / self.size
                buffer.copy_(mean)

    def seed_step(self, seed: int, step: int) -> None:
        """Let modules draw differently in each process, and the same again after a resumption."""
        if self.size > 1:
            torch.manual_seed((seed + step * self.size + self.rank) % 2**63)


@dataclass(frozen=True)
class Share:
    """Which of ``n`` rows this process has; the others have the rest."""

    ranks: Ranks
    own: NDArray[np.intp]  # places among the n
    n: int

    @cached_property
    def _held_as(self) -> NDArray[np.intp]:
        """Where this process holds each of the n rows; -1 if it doesn't."""
        held_as = np.full(self.n, -1)
        held_as[self.own] = np.arange(len(self.own))
        return held_as

    def take(self, places: NDArray[np.intp] | slice) -> tuple[NDArray[np.intp], "Share"]:
        """Of some of the n: where those that are here are held, and which they are."""
        held_as = self._held_as[places]
        own = np.flatnonzero(held_as >= 0)
        return held_as[own], Share(self.ranks, own, len(held_as))

    def whole(self, values: NDArray[Any]) -> NDArray[Any]:
        """From values of the own rows, give those of all n."""
        everyones = np.zeros((self.n, *values.shape[1:]), dtype=values.dtype)
        everyones[self.own] = values
        return self.ranks.total(everyones)

    def points(self, own: Tensor) -> Tensor:
        """From embeddings of the own rows, give those of all n, in the graph.

        What the processes differentiate has to have as its mean what all of them minimise.
        """
        points: Tensor = _Points.apply(own, self)  # type: ignore[no-untyped-call]
        return points


class _Points(torch.autograd.Function):
    """A sum with zeros: gloo is as fast at it as at gathering, and shares may be of any size."""

    @staticmethod
    def forward(ctx: Any, own: Tensor, share: Share) -> Tensor:
        ctx.share = share
        everyones = own.new_zeros(share.n, *own.shape[1:])
        everyones[torch.from_numpy(share.own).to(own.device)] = own
        return share.ranks.add_up(everyones)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        # Every process has a part of the loss that depends on the points of every other.
        grad = ctx.share.ranks.add_up(grad.clone(memory_format=torch.contiguous_format))
        return grad[torch.from_numpy(ctx.share.own).to(grad.device)], None


def share_queries(objective: Callable[..., Tensor], share: Share | None) -> Callable[..., Tensor]:
    """Let each process compare its part of the queries, such that the mean is the loss of all.

    For an objective that is a mean over the queries that have another of their class in the pool.
    """
    if share is None:
        return objective
    ranks = share.ranks

    def of_own_queries(
        embeddings: Tensor, labels: Tensor, *, sample_weight: Tensor | None, pool: Pool
    ) -> Tensor:
        n_same = torch.bincount(pool.labels)[labels] - (pool.rows >= 0).long()
        counts = (n_same > 0).double() * (1 if sample_weight is None else sample_weight)
        begin, end = (len(labels) * rank // ranks.size for rank in (ranks.rank, ranks.rank + 1))
        if begin == end:
            return 0 * embeddings.sum()
        own = slice(begin, end)
        loss = objective(
            embeddings[own],
            labels[own],
            sample_weight=None if sample_weight is None else sample_weight[own],
            pool=Pool(pool.embeddings, pool.labels, pool.rows[own]),
        )
        part = counts[own].sum() / counts.sum().clamp_min(torch.finfo(torch.float64).tiny)
        return loss * (ranks.size * part).to(loss.dtype)

    return of_own_queries


def n_processes() -> int:
    """How many processes there are of torchrun, or in the process group; else 1."""
    if not dist.is_available():
        return 1
    if dist.is_initialized():
        return dist.get_world_size()
    return int(os.environ.get("WORLD_SIZE", 1)) if dist.is_torchelastic_launched() else 1


def refuse_several(what: str) -> None:
    """Refuse what several processes would each do by themselves, on their rows alone."""
    if n_processes() > 1:
        raise ValueError(
            f"{what} learns in one process, and this is one of {n_processes()} that belong "
            "together. Run it without torchrun, or use CCML.fit."
        )


@contextmanager
def joined(device: str) -> Iterator[Ranks]:
    """Give this process among those of torchrun or of the process group; else alone."""
    if n_processes() == 1:
        yield Ranks()
        return
    on_gpu = torch.device(device).type == "cuda"
    if not dist.is_initialized():
        if on_gpu and torch.device(device).index is None:
            torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        dist.init_process_group("nccl" if on_gpu else "gloo")
    with _or_gone():
        words = dist.new_group(backend="gloo")  # first: it waits for those that come late
        steps = dist.new_group(backend="nccl" if on_gpu else "gloo", timeout=_PATIENCE)
    yield Ranks(dist.get_rank(), dist.get_world_size(), device, steps, words)
    for group in (steps, words):  # after an error they end with the process
        dist.destroy_process_group(group)


@contextmanager
def _or_gone() -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        # gloo begins with a place in its source, and ends with advice.
        reason = re.sub(r"^\[[^]]*\] ", "", str(error)).partition("\n")[0].partition(". ")[0]
        raise RuntimeError(
            f"Another process of this training has gone away ({reason}). Start all of them again; "
            "with checkpoint=... a run goes on from where it was saved last."
        ) from None

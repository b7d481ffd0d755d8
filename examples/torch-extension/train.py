"""Data-parallel training with gradients that Rust averages; the loss is that of a serial run.

    python3 train.py                               two ranks, threads of this process, on the CPU
    torchrun --nproc-per-node 2 train.py           a GPU for each rank

The extension is built and installed by `pip install .` (maturin); or by hand:

    cargo build --release
    cp target/release/libaverager.so averager.abi3.so
"""

import os
import threading

import torch

from averager import Averager

STEPS, BATCH = 20, 32


def train(rank, size, average_, device):
    """Trains on this rank's part of each batch; gives the last loss of the whole batch."""
    numbers = torch.Generator().manual_seed(1)
    weights = [torch.randn(*shape, generator=numbers) * 0.3 for shape in [(8, 16), (16, 1)]]
    weights = [weight.to(device).requires_grad_() for weight in weights]
    for _ in range(STEPS):
        x = torch.randn(BATCH, 8, generator=numbers).to(device)
        y = x.sin().sum(1, keepdim=True)
        part = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
        loss = (((x[part] @ weights[0]).tanh() @ weights[1] - y[part]) ** 2).mean()
        gradients = torch.autograd.grad(loss, weights)
        with torch.no_grad():
            for weight, gradient in zip(weights, gradients):
                average_(gradient)
                weight -= 0.05 * gradient
            loss = loss.detach()
            average_(loss)
    return loss.item()


def threads(size):
    """The loss that each rank of threads ends with."""
    losses = [None] * size

    def rank(number, averager):
        losses[number] = train(number, size, averager.average_, "cpu")

    ranks = [threading.Thread(target=rank, args=it) for it in enumerate(Averager.threads(size))]
    for thread in ranks:
        thread.start()
    for thread in ranks:
        thread.join()
    return losses


if __name__ == "__main__":
    serial = train(0, 1, lambda x: None, "cpu")
    if "LOCAL_RANK" in os.environ:
        gpu = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(gpu)
        rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        losses = [train(rank, size, Averager().average_, f"cuda:{gpu}")]
    else:
        losses = threads(2)
    print(f"loss {losses}, serial {serial}")
    assert all(abs(loss - serial) < 1e-4 for loss in losses)

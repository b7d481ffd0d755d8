"""What torch with NCCL needs from the death of a process to the next verified all_reduce.

    python3 benches/torch_recovery.py [ranks] [timeout in seconds]      # 2 GPUs at least, torch >= 2.4

One process for each GPU; the last is killed (`kill -9`) while all of them reduce. Each other one notices,
aborts its process group, makes one without the dead rank, and verifies an all_reduce there. Beside it:
`RECOVERIES_ON_GPUS=2 cargo test --release -p tests --test processes how_long_a_recovery_takes`.

torch notices nothing of a killed peer on the same host: a collective waits until the group's timeout
(10 minutes unless set; here 5 s), and then, as it is configured by default, the watchdog ends the process.
So that a survivor lives and is told:

* TORCH_NCCL_BLOCKING_WAIT=1           a wait raises an error when the timeout passes,
* TORCH_NCCL_ASYNC_ERROR_HANDLING=0    and the watchdog does not end the process,
* TORCH_NCCL_ENABLE_MONITORING=0       nor does the thread that watches the watchdog,
* TORCH_NCCL_DUMP_ON_TIMEOUT=0         and no traces are gathered first.

Who has died is not known to torch, so here the parent tells the survivors, which costs them nothing; and
rank 0, which has the store, is not the one that dies.
"""

import faulthandler
import os
import signal
import socket
import sys
import time
from datetime import timedelta

SETTINGS = {
    "TORCH_NCCL_BLOCKING_WAIT": "1",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING": "0",
    "TORCH_NCCL_ENABLE_MONITORING": "0",
    "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
}
PARTS = ["noticed", "aborted", "connected", "verified"]
WATCHDOG = 60.0


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def rank_of(rank, size, ports, timeout, events):
    os.environ.update(SETTINGS)
    faulthandler.dump_traceback_later(40)
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(rank)

    def connect(port, size):
        dist.init_process_group(
            "nccl",
            init_method=f"tcp://127.0.0.1:{port}",
            rank=rank,
            world_size=size,
            timeout=timedelta(seconds=timeout),
        )

    def reduces(size):
        x = torch.ones(1024, device="cuda")
        dist.all_reduce(x, async_op=True).wait()  # blocks, as the settings say
        return bool((x == size).all().item())

    connect(ports[0], size)
    assert reduces(size)
    events.put((rank, "works", time.time()))
    try:
        while True:
            reduces(size)
    except Exception as error:  # DistBackendError, or RuntimeError, as the release has it
        events.put((rank, "noticed", time.time()))
        print(f"rank {rank}: {type(error).__name__}: {str(error).splitlines()[0][:160]}", flush=True)
    # `destroy_process_group` waits for what is in flight, for ever: abort it first.
    group = dist.distributed_c10d._get_default_group()
    backend = group._get_backend(torch.device("cuda"))
    (getattr(backend, "abort", None) or backend._shutdown)()
    dist.destroy_process_group()
    events.put((rank, "aborted", time.time()))
    connect(ports[1], size - 1)
    events.put((rank, "connected", time.time()))
    assert reduces(size - 1)
    events.put((rank, "verified", time.time()))
    # Its end is not measured, and may wait for threads of the old group.
    events.close()
    events.join_thread()
    os._exit(0)


def main():
    import torch
    import torch.multiprocessing as multiprocessing

    gpus = torch.cuda.device_count()
    size = int(sys.argv[1]) if len(sys.argv) > 1 else gpus
    timeout = float(sys.argv[2]) if len(sys.argv) > 2 else 5.0
    if not 2 <= size <= gpus:
        sys.exit(f"{size} ranks, and {gpus} GPUs: it takes 2 ranks and a GPU for each")
    print(f"torch {torch.__version__}, NCCL {torch.cuda.nccl.version()}, {size} ranks, timeout {timeout} s", flush=True)
    context = multiprocessing.get_context("spawn")
    events, ports = context.Queue(), [free_port(), free_port()]
    ranks = [
        context.Process(target=rank_of, args=(rank, size, ports, timeout, events))
        for rank in range(size)
    ]
    ended = time.time() + WATCHDOG
    try:
        for rank in ranks:
            rank.start()
        seen = {part: {} for part in ["works", *PARTS]}

        def until(part, count):
            while len(seen[part]) < count:
                rank, what, at = events.get(timeout=max(0.1, ended - time.time()))
                seen[what][rank] = at

        until("works", size)
        time.sleep(0.5)
        killed = time.time()
        os.kill(ranks[-1].pid, signal.SIGKILL)
        until("verified", size - 1)
        for part in PARTS:
            times = sorted(at - killed for at in seen[part].values())
            print(f"{part}: median {times[len(times) // 2]:.3f} s, slowest {times[-1]:.3f} s")
    except Exception as error:
        sys.exit(f"not within {WATCHDOG} s: {type(error).__name__} {error}; seen: {seen}")
    finally:
        for rank in ranks:
            if rank.pid:
                rank.kill()


if __name__ == "__main__":
    main()

"""Arrays of torch and CuPy on GPUs: two ranks, each a process with a GPU of its own. Run by hand.

    python3 gpu.py                                     starts its two ranks itself
    torchrun --nproc-per-node 2 gpu.py                 the same by a launcher

Options: --only NAME   the cases whose name has NAME
         --unordered   takes the order with torch's and CuPy's streams out: the cases `order_*` fail
         --limit S     seconds after which a case that has not ended ends the run (90)

The extension is looked for in the folder TYPED_NCCL_TESTS, else beside this file. nccl4py's source is
looked for in NCCL4PY where it is not installed (see resolve.py). Needs no Rust and no network.
"""

import argparse
import contextlib
import faulthandler
import gc
import importlib.util
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.environ.get("TYPED_NCCL_TESTS", HERE))
sys.path.insert(1, HERE)

RANK = int(os.environ.get("RANK", "-1"))
SIZE = 2
N = 1 << 20


class Skip(Exception):
    pass


def say(text):
    print(f"[rank {RANK}] {text}", flush=True)


def equal(found, wanted, what=""):
    if found != wanted:
        raise AssertionError(f"{what}: found {found}, wanted {wanted}")


@contextlib.contextmanager
def refused(*parts):
    try:
        yield
    except Exception as error:
        for part in parts:
            if part not in str(error):
                raise AssertionError(f"`{part}` is missing in: {error}") from error
    else:
        raise AssertionError(f"not refused: {parts}")


class Torch:
    """What the cases do with an array, in torch's words."""

    name = "torch"

    def __init__(self):
        self.module = torch

    def full(self, n, value):
        return torch.full((n,), float(value), device="cuda")

    def numbers(self, x):
        return x.flatten().tolist()

    def address(self, x):
        return x.data_ptr()

    def sync(self):
        torch.cuda.synchronize()

    def stream(self):
        return torch.cuda.stream(torch.cuda.Stream())

    def set(self, x, values):
        x.copy_(values, non_blocking=True)

    def copy(self, x):
        return x.clone()

    def busy(self):
        torch.cuda._sleep(CYCLES)


class Cupy:
    """The same in CuPy's, without a kernel that CuPy would have to compile."""

    name = "cupy"

    def __init__(self):
        self.module = cupy

    def full(self, n, value):
        return cupy.asarray(numpy.full(n, value, dtype=numpy.float32))

    def numbers(self, x):
        return x.get().flatten().tolist()

    def address(self, x):
        return x.data.ptr

    def sync(self):
        cupy.cuda.runtime.deviceSynchronize()

    def stream(self):
        return cupy.cuda.Stream(non_blocking=True)

    def set(self, x, values):
        x.data.copy_from_device_async(values.data, x.nbytes, cupy.cuda.get_current_stream())

    def copy(self, x):
        y = cupy.empty_like(x)
        self.set(y, x)
        return y

    def busy(self):
        stream = cupy.cuda.get_current_stream().ptr
        with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
            torch.cuda._sleep(CYCLES)


# Some tenths of a second of a GPU's clock.
CYCLES = 400_000_000


def all_reduce(comm, library):
    x = library.full(N, comm.rank[0] + 1)
    address = library.address(x)
    comm.all_reduce_(x, library.name)
    equal(library.address(x), address, "the address")
    equal(set(library.numbers(x)), {3.0})
    y = library.full(N, 0)
    comm.all_reduce(x, y, library.name)
    equal((set(library.numbers(x)), set(library.numbers(y))), ({3.0}, {6.0}))
    comm.all_reduce_typed(x, library.name)
    equal(set(library.numbers(x)), {6.0}, "typed")


def current_stream(comm, library):
    for stream in [contextlib.nullcontext(), library.stream()]:
        with stream:
            library.busy()
            x = library.full(N, 0)
            library.set(x, library.full(N, comm.rank[0] + 1))
            comm.all_reduce_on_theirs_(x, library.name)
            y = library.copy(x)
            library.sync()
        equal(set(library.numbers(y)), {3.0})


def order(comm, library, unordered=None):
    """What the library writes before, after a long kernel, is read by us; what we write it reads at once."""
    sums = comm.all_reduce_unordered_ if UNORDERED or unordered else comm.all_reduce_
    seen = []
    for stream in [library.stream(), contextlib.nullcontext()]:
        x, values = library.full(N, 0), library.full(N, comm.rank[0] + 1)
        library.sync()
        comm.barrier()
        with stream:
            library.busy()
            library.set(x, values)
            sums(x, library.name)
            y = library.copy(x)
            library.sync()
        comm.sync()
        seen.append(set(library.numbers(y)))
    if unordered:
        if seen == [{3.0}, {3.0}]:
            raise AssertionError("without the order the result is right: the case proves nothing")
    else:
        equal(seen, [{3.0}, {3.0}], "what the library saw")


def order_taken_out(comm, library):
    order(comm, library, unordered=True)


def window(comm, library):
    rank = comm.rank[0]
    x = comm.empty(library.name, 1024, "f32")
    library.set(x, library.full(1024, 10 + rank))
    address = library.address(x)
    w = comm.window(x, library.name)
    comm.barrier()
    equal(library.address(x), address, "the address")
    comm.put_signal(w, (0, 256), 1 - rank, 512)
    comm.wait_signal(1 - rank)
    comm.barrier()
    found = library.numbers(x)
    equal(found[:512], [10.0 + rank] * 512, "what is mine")
    equal(found[512:768], [11.0 - rank] * 256, "what was put")
    comm.close(w)
    comm.all_reduce_(x, library.name)
    equal(library.numbers(x)[0], 21.0, "after the window")


def window_outlives_array(comm, library):
    rank = comm.rank[0]
    x = comm.empty(library.name, 1024, "f32")
    library.set(x, library.full(1024, 10 + rank))
    w = comm.window(x, library.name)
    address = library.address(x)
    del x
    gc.collect()
    # Memory that were free would be given again.
    others = [comm.empty(library.name, 1024, "f32") for _ in range(8)]
    if address in [library.address(other) for other in others]:
        raise AssertionError("memory under a window was given away")
    comm.barrier()
    comm.put_signal(w, (0, 256), 1 - rank, 512)
    comm.wait_signal(1 - rank)
    comm.close(w)


def empty(comm, library):
    for shape, wanted in [(5, (5,)), ((2, 3), (2, 3)), ((), ())]:
        equal(tuple(comm.empty(library.name, shape).shape), wanted)
    x = comm.empty(library.name, (2, 3, 4), "f32", "F")
    strides = x.stride() if library.name == "torch" else tuple(n // 4 for n in x.strides)
    equal(strides, (1, 2, 6), "Fortran's order")
    default = torch.get_default_dtype() if library.name == "torch" else numpy.dtype("float64")
    equal(comm.empty(library.name, 3).dtype, default)
    dtypes = ["i8", "u8", "i32", "u32", "i64", "u64", "f16", "f32", "f64", "complex<f32>", "complex<f64>"]
    dtypes += ["bf16", "f8e4m3", "f8e5m2"] if library.name == "torch" else []
    for name in dtypes:
        equal(ours.describe(comm.empty(library.name, 3, name), library.name)[1], name)


def memory_comes_back(comm, library):
    """64 times 64 MiB, one after the other."""
    bytes_each = 64 << 20
    free = lambda: torch.cuda.mem_get_info()[0]  # noqa: E731
    x = comm.empty(library.name, bytes_each // 4, "f32")
    library.sync()
    before = free()
    for n in range(64):
        x = comm.empty(library.name, bytes_each // 4, "f32")
        held = comm.hold(x, library.name) if n % 2 else None
        del held
        library.sync()
    library.sync()
    used = before - free()
    if used > 8 * bytes_each:
        raise AssertionError(f"{used >> 20} MiB did not come back")
    say(f"memory_comes_back {library.name}: {max(used, 0) >> 20} MiB more than at first")


def faults(comm, library):
    if library.name == "torch":
        with refused("pageable", 'x.to("cuda:0")'):
            comm.all_reduce_(torch.zeros(3), "torch")
        other = torch.zeros(3, device=f"cuda:{1 - torch.cuda.current_device()}")
        with refused("cuda"):
            comm.all_reduce_(other, "torch")
        with refused("x.detach()"):
            comm.all_reduce_(torch.zeros(3, device="cuda", requires_grad=True), "torch")
        with refused("torch.sparse_coo"):
            comm.all_reduce_(torch.eye(3, device="cuda").to_sparse(), "torch")
    else:
        with refused("numpy.ndarray"):
            comm.all_reduce_(numpy.zeros(3), "cupy")
    x = library.full(8, 1)
    with refused("strides"):
        comm.all_reduce_(x[::2], library.name)
    held = comm.hold(x, library.name)
    with refused("in use"):
        comm.all_reduce_(x, library.name)
    if held.into_inner() is not x:
        raise AssertionError("another object came back")
    with refused("empty"):
        comm.window(x, library.name)


def objects(comm, library):
    """By DLPack, and by nothing but `__cuda_array_interface__`."""
    x = library.full(N, comm.rank[0] + 1)
    equal(ours.describe(x)[0], library.address(x), "DLPack")
    comm.all_reduce_any_(x)
    library.sync()
    equal(set(library.numbers(x)), {3.0})

    class Only:
        def __init__(self, it):
            self.__cuda_array_interface__ = it.__cuda_array_interface__

    equal(ours.describe(Only(x))[0], library.address(x), "the interface")
    comm.all_reduce_any_(Only(x))
    library.sync()
    equal(set(library.numbers(x)), {6.0})
    given = ours.exported((2, 3), "C", torch.cuda.current_device())
    y = torch.as_tensor(given, device="cuda") if library.name == "torch" else cupy.asarray(given)
    equal(library.address(y), given.__cuda_array_interface__["data"][0], "what is given")
    equal(library.numbers(y), [0.0, 1.0, 2.0, 3.0, 4.0, 5.0])


def cost(comm, library):
    import resolve

    if comm.rank[0] == 0:
        best = resolve.report(library.full(20, 0), library.name, say)
        theirs = [ns for name, ns in best.items() if name.startswith("nccl4py")]
        if theirs and best["ours, called from Python"] >= theirs[0]:
            raise AssertionError("resolving costs more than nccl4py's")
    comm.barrier()


CASES = [
    all_reduce, current_stream, order, order_taken_out, empty, window, window_outlives_array,
    memory_comes_back, faults, objects, cost,
]


def watchdog(name, limit):
    """Ends the run if the case does not, and says where every thread is."""
    over = threading.Event()

    def watch():
        if not over.wait(limit):
            say(f"{name}: HANGS: not over after {limit} s")
            faulthandler.dump_traceback(file=sys.stdout)
            sys.stdout.flush()
            os._exit(3)

    threading.Thread(target=watch, daemon=True).start()
    return over


def rank_main(arguments):
    global torch, cupy, numpy, ours, UNORDERED
    import numpy
    import torch

    UNORDERED = arguments.unordered
    local = int(os.environ.get("LOCAL_RANK", RANK))
    torch.cuda.set_device(local)
    say(f"Python {sys.version.split()[0]}, torch {torch.__version__}, {torch.cuda.get_device_name()}")
    libraries = [Torch()]
    if importlib.util.find_spec("cupy"):
        import cupy

        cupy.cuda.Device(local).use()
        say(f"CuPy {cupy.__version__}")
        libraries.append(Cupy())
    else:
        say("SKIPPED: every case of CuPy: it is not installed")
    import typed_nccl_tests as ours

    failed = 0
    for case in CASES:
        for library in libraries:
            name = f"{case.__name__} {library.name}"
            if arguments.only not in name:
                continue
            over, start = watchdog(name, arguments.limit), time.monotonic()
            try:
                seat = ours.seat_at(f"{arguments.meet}-{name.replace(' ', '-')}", RANK, SIZE)
                comm = ours.Comm(seat, "cuda", local, arguments.limit // 3)
                case(comm, library)
                gc.collect()
                comm.finish()
                say(f"{name}: ok ({time.monotonic() - start:.2f} s)")
            except Skip as why:
                say(f"{name}: SKIPPED: {why}")
            except Exception as error:
                if "needs NCCL" in str(error) or "NCCL 2.29" in str(error):
                    say(f"{name}: SKIPPED: {error}")
                    over.set()
                    continue
                failed += 1
                say(f"{name}: FAILED\n{traceback.format_exc()}")
            over.set()
    say(f"{failed} failed")
    return 1 if failed else 0


def main():
    global RANK
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="")
    parser.add_argument("--unordered", action="store_true")
    parser.add_argument("--limit", type=int, default=90)
    job = os.environ.get("TORCHELASTIC_RUN_ID", "job") + "-" + os.environ.get("MASTER_PORT", str(os.getpid()))
    parser.add_argument("--meet", default=os.path.join(tempfile.gettempdir(), f"typed-nccl-{job}"))
    arguments = parser.parse_args()
    if RANK >= 0:
        return rank_main(arguments)
    ranks = []
    for rank in range(SIZE):
        environment = {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(SIZE)}
        command = [sys.executable, os.path.abspath(__file__), "--meet", arguments.meet, *sys.argv[1:]]
        ranks.append(subprocess.Popen(command, env=environment))
    codes = [rank.wait() for rank in ranks]
    print("ok" if codes == [0, 0] else f"FAILED: {codes}", flush=True)
    return max(abs(code) for code in codes)


if __name__ == "__main__":
    sys.exit(main())

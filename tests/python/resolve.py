"""What resolving an array costs, beside nccl4py's `resolve_tensor` and `resolve_array`, in one run.

    python3 resolve.py

nccl4py is the one that is installed; else its own source in the folder NCCL4PY (an unpacked wheel, of any
version of Python), with stand-ins for what its resolvers do not use.
"""

import importlib
import os
import sys
import timeit
import types

sys.path.insert(0, os.environ.get("TYPED_NCCL_TESTS", os.path.dirname(os.path.abspath(__file__))))

import typed_nccl_tests as ours  # noqa: E402


def theirs(library):
    """nccl4py's resolver, and how it was found; (None, why) without."""
    name = {"torch": "resolve_tensor", "cupy": "resolve_array"}[library]
    try:
        module = importlib.import_module(f"nccl.core.interop.{library}")
        return getattr(module, name), "installed"
    except Exception as error:  # whatever its import needs and this machine lacks
        why = f"{type(error).__name__}: {error}"
    folder = os.environ.get("NCCL4PY")
    if not folder:
        return None, why
    try:
        return getattr(from_source(folder, library), name), "from its source"
    except Exception as error:
        return None, f"{why}; its source: {type(error).__name__}: {error}"


def from_source(folder, library):
    def stand_in(name, **names):
        module = types.ModuleType(name)
        module.__path__ = []
        module.__dict__.update(names)
        sys.modules[name] = module

    for name in [name for name in sys.modules if name.split(".")[0] == "nccl"]:
        del sys.modules[name]
    nothing = {name: type(name, (), {}) for name in ["Buffer", "Device", "Event", "Stream"]}
    if "cuda" not in sys.modules:
        stand_in("cuda")
    stand_in("cuda.core", **nothing)
    stand_in("cuda.core.typing", IsStreamType=object)
    for name in ["nccl", "nccl.core", "nccl.core.interop"]:
        stand_in(name)
    stand_in("nccl.core.buffer", mem_alloc=None)
    load("nccl.core.typing", os.path.join(folder, "nccl/core/typing.py"))
    path = os.path.join(folder, f"nccl/core/interop/{library}.py")
    return load(f"nccl.core.interop.{library}", path)


def load(name, path):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def measure(x, library, n=20_000, rounds=9):
    """Nanoseconds, the best of some rounds that take turns."""
    resolve, how = theirs(library)
    calls = {"ours, called from Python": lambda: ours.resolve(x, library)}
    if resolve:
        calls[f"nccl4py ({how})"] = lambda: resolve(x)
    best = dict.fromkeys(calls, float("inf"))
    inside = float("inf")
    for _ in range(rounds):
        for name, call in calls.items():
            best[name] = min(best[name], timeit.timeit(call, number=n) / n * 1e9)
        inside = min(inside, ours.resolve_loop(x, library, n))
    best["ours, called from Rust"] = inside
    return best, None if resolve else how


def report(x, library, say=print):
    best, missing = measure(x, library)
    for name, nanoseconds in best.items():
        say(f"resolve, {library}: {nanoseconds:6.0f} ns  {name}")
    if missing:
        say(f"resolve, {library}: SKIPPED beside nccl4py: {missing}")
    return best


if __name__ == "__main__":
    import torch

    report(torch.zeros(4, 5), "torch")
    if torch.cuda.is_available():
        report(torch.zeros(4, 5, device="cuda"), "torch")
        try:
            import cupy
        except ImportError as error:
            print(f"resolve, cupy: SKIPPED: {error}")
        else:
            report(cupy.zeros((4, 5), "f4"), "cupy")

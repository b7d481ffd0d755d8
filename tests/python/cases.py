"""Arrays of Python's libraries, on host devices: ranks are threads of one interpreter.

    python3 -m unittest -v cases        (in this folder; TYPED_NCCL_TESTS is the folder of the extension)

Needs the standard library; what tests a library that is not installed says that it skipped.
"""

import gc
import importlib.util
import os
import resource
import sys
import threading
import types
import unittest
import weakref

sys.path.insert(0, os.environ.get("TYPED_NCCL_TESTS", os.path.dirname(os.path.abspath(__file__))))

import typed_nccl_tests as ours  # noqa: E402


def installed(name):
    return importlib.util.find_spec(name) is not None


torch = __import__("torch") if installed("torch") else None
numpy = __import__("numpy") if installed("numpy") else None

with_torch = unittest.skipUnless(torch, "torch is not installed")
with_numpy = unittest.skipUnless(numpy, "numpy is not installed")
with_ml_dtypes = unittest.skipUnless(numpy and installed("ml_dtypes"), "ml_dtypes is not installed")

# A case that hangs ends the run, and says where every thread is.
import faulthandler  # noqa: E402

LIMIT = 60


def ranks(n, work):
    """Runs `work(comm)` on n ranks, each a thread; gives what they returned."""
    results, errors = [None] * n, []

    def rank(seat, ordinal):
        try:
            comm = ours.Comm(seat, "host", ordinal)
            results[ordinal] = work(comm)
            comm.finish()
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=rank, args=it) for it in zip(ours.seats(n), range(n))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def alone():
    return ours.Comm(ours.seats(1)[0], "host", 0)


class Case(unittest.TestCase):
    def setUp(self):
        faulthandler.dump_traceback_later(LIMIT, exit=True)

    def tearDown(self):
        faulthandler.cancel_dump_traceback_later()

    def refused(self, error, parts, call, *args):
        with self.assertRaises(error) as caught:
            call(*args)
        for part in parts:
            self.assertIn(part, str(caught.exception))


@with_torch
class Torch(Case):
    def test_all_reduce_in_a_tensors_own_memory(self):
        def work(comm):
            x = torch.arange(12, dtype=torch.float32).reshape(3, 4) + comm.rank[0]
            address = x.data_ptr()
            comm.all_reduce_(x, "torch")
            self.assertEqual(x.data_ptr(), address)
            return x

        for x in ranks(3, work):
            self.assertTrue(torch.equal(x, torch.arange(12.0).reshape(3, 4) * 3 + 3))

    def test_all_reduce_from_one_tensor_into_another(self):
        def work(comm):
            x, y = torch.full((5,), comm.rank[0] + 1.0), torch.zeros(5)
            comm.all_reduce(x, y, "torch")
            return x, y

        for rank, (x, y) in enumerate(ranks(2, work)):
            self.assertEqual(x.tolist(), [rank + 1.0] * 5)
            self.assertEqual(y.tolist(), [3.0] * 5)

    def test_a_tensor_becomes_a_typed_buffer_and_comes_back(self):
        def work(comm):
            x = torch.ones(7)
            self.assertIs(comm.all_reduce_typed(x, "torch"), x)
            return x.tolist()

        self.assertEqual(ranks(2, work), [[2.0] * 7] * 2)

    def test_another_type_is_named(self):
        comm, x = alone(), torch.ones(3)
        self.refused(ValueError, ["f64", "f32"], comm.all_reduce_typed, x, "torch", "f64")
        comm.all_reduce_(x, "torch")
        comm.finish()

    def test_a_call_that_waits_lets_the_other_threads_run(self):
        # The first rank waits in its call before the second one begins.
        waits = threading.Event()

        def work(comm):
            x = torch.ones(2)
            if comm.rank[0] == 0:
                waits.set()
            else:
                waits.wait()
                for _ in range(1000):  # the interpreter switches threads meanwhile, if it can
                    pass
            comm.all_reduce_(x, "torch")
            return x.tolist()

        self.assertEqual(ranks(2, work), [[2.0, 2.0]] * 2)

    def test_what_resolve_finds(self):
        x = torch.zeros(3, 4)
        self.assertEqual(ours.resolve(x, "torch"), (x.data_ptr(), 12, 7, None))
        address, dtype, shape, strides, place = ours.describe(x.t(), "torch")
        self.assertEqual((address, dtype, shape, strides), (x.data_ptr(), "f32", [4, 3], [1, 4]))
        self.assertIn("OnHost", place)
        part = x[1:]
        self.assertEqual(ours.resolve(part, "torch")[:2], (x.data_ptr() + 16, 8))
        self.assertEqual(ours.describe(torch.tensor(1.0), "torch")[2], [])
        self.assertEqual(ours.resolve(torch.nn.Parameter(x, requires_grad=False), "torch")[1], 12)

    def test_every_data_type(self):
        names = {
            "i8": "int8", "u8": "uint8", "i32": "int32", "i64": "int64", "f16": "float16",
            "f32": "float32", "f64": "float64", "bf16": "bfloat16", "u32": "uint32",
            "u64": "uint64", "f8e4m3": "float8_e4m3fn", "f8e5m2": "float8_e5m2",
            "i16": "int16", "u16": "uint16", "bool": "bool",
            "complex<f32>": "complex64", "complex<f64>": "complex128",
        }
        comm = alone()
        for name, theirs in names.items():
            dtype = getattr(torch, theirs, None)
            if dtype is None:
                self.refused(ValueError, [name], comm.empty, "torch", 3, name)
                continue
            x = comm.empty("torch", (2, 3), name)
            self.assertEqual((x.dtype, tuple(x.shape)), (dtype, (2, 3)))
            self.assertEqual(ours.describe(x, "torch")[1], name)
        comm.finish()

    def test_wrong_objects(self):
        for x in [[1.0, 2.0], None, 3, "x"]:
            self.refused(TypeError, [type(x).__name__], ours.resolve, x, "torch")
        if numpy:
            self.refused(TypeError, ["numpy.ndarray"], ours.resolve, numpy.zeros(3), "torch")

    def test_types_that_nccl_lacks(self):
        x = torch.zeros(3, dtype=torch.complex32)
        self.refused(ValueError, ["torch.complex32"], ours.resolve, x, "torch")

    def test_complex_numbers_are_summed(self):
        def work(comm):
            x = torch.tensor([1.0 + 2.0j, -3.0j]) * (comm.rank[0] + 1)
            comm.all_reduce_(x, "torch")
            return x.tolist()

        self.assertEqual(ranks(2, work), [[3.0 + 6.0j, -9.0j]] * 2)

    def test_elements_apart(self):
        x = torch.zeros(4, 6)
        for part in [x[:, :3], x[::2], x[0].expand(5, 6), x.t()[::3]]:
            self.refused(ValueError, ["x.contiguous()", "strides"], ours.resolve, part, "torch")

    def test_another_order_than_cs_is_refused(self):
        comm, x = alone(), torch.arange(24.0).reshape(2, 3, 4)
        last = torch.zeros(1, 3, 4, 5).to(memory_format=torch.channels_last)
        for y in [x.permute(2, 0, 1), x[0].t(), last]:
            words = ["of torch", "C order", "x.contiguous()", "x.permute(..)"]
            self.refused(ValueError, words, comm.all_reduce_, y, "torch")
            self.refused(ValueError, words, comm.hold, y, "torch")
            self.refused(ValueError, words, comm.all_reduce, y, torch.zeros(60)[:y.numel()], "torch")
            comm.all_reduce_(y.contiguous(), "torch")
        comm.all_reduce_(x.permute(2, 0, 1).permute(1, 2, 0), "torch")
        comm.all_reduce_(torch.zeros(4, 1).t(), "torch")  # a dimension of one element has no stride
        # The memory of an array in Fortran's order backs a window as the view that is in C's.
        x = comm.empty("torch", (2, 3), "f32", "F")
        self.refused(ValueError, ["C order"], comm.window, x, "torch")
        comm.close(comm.window(x.t(), "torch"))
        comm.finish()

    @with_numpy
    def test_misaligned(self):
        x = torch.from_numpy(numpy.zeros(17, dtype=numpy.uint8)[1:].view(numpy.float32))
        self.refused(ValueError, ["multiple of 4"], ours.resolve, x, "torch")

    def test_gradients(self):
        leaf = torch.zeros(3, requires_grad=True)
        for x in [leaf, leaf * 2, torch.nn.Parameter(torch.zeros(3))]:
            self.refused(ValueError, ["x.detach()"], ours.resolve, x, "torch")
            ours.resolve(x.detach(), "torch")
        (leaf * leaf).sum().backward()
        ours.resolve(leaf.grad, "torch")

    def test_sparse(self):
        x = torch.eye(3).to_sparse()
        self.refused(ValueError, ["torch.sparse_coo", "x.to_dense()"], ours.resolve, x, "torch")

    def test_no_elements(self):
        self.refused(ValueError, ["no elements"], ours.resolve, torch.zeros(0, 3), "torch")

    def test_no_memory(self):
        self.refused(ValueError, ["meta"], ours.resolve, torch.zeros(3, device="meta"), "torch")

    def test_lazy_bits(self):
        lazy = torch.ones(3, dtype=torch.complex64).conj()
        self.refused(ValueError, ["conjugate", "resolve_conj()"], ours.resolve, lazy, "torch")
        ours.resolve(lazy.resolve_conj(), "torch")
        negative = torch._neg_view(torch.ones(3))
        self.refused(ValueError, ["negative", "resolve_neg()"], ours.resolve, negative, "torch")

    def test_two_handles_of_one_memory(self):
        comm, x = alone(), torch.ones(6)
        held = comm.hold(x, "torch")
        self.refused(ValueError, ["in use"], comm.all_reduce_, x, "torch")
        self.refused(ValueError, ["in use"], comm.hold, x[2:], "torch")
        self.refused(ValueError, ["in use"], comm.all_reduce, x[:3], x[2:5], "torch")
        self.assertIs(held.into_inner(), x)
        comm.all_reduce_(x, "torch")
        comm.finish()

    def test_a_tensor_lives_while_a_buffer_is_over_it(self):
        comm, x = alone(), torch.ones(6)
        dies = weakref.ref(x)
        held = comm.hold(x, "torch")
        del x
        gc.collect()
        self.assertIsNotNone(dies())
        del held
        comm.barrier()
        gc.collect()
        self.assertIsNone(dies())
        comm.finish()

    def test_empty(self):
        comm = alone()
        for shape, found in [(5, (5,)), ((5,), (5,)), ((2, 3, 4), (2, 3, 4)), ([2, 3], (2, 3)), ((), ())]:
            x = comm.empty("torch", shape)
            self.assertEqual((tuple(x.shape), x.dtype), (found, torch.get_default_dtype()))
            self.assertTrue(x.is_contiguous())
        x = comm.empty("torch", (2, 3, 4), None, "F")
        self.assertEqual((tuple(x.shape), x.stride()), ((2, 3, 4), (1, 2, 6)))
        torch.set_default_dtype(torch.float64)
        try:
            self.assertEqual(comm.empty("torch", 2).dtype, torch.float64)
        finally:
            torch.set_default_dtype(torch.float32)
        self.refused(TypeError, ["shape", "-1"], comm.empty, "torch", (2, -1))
        self.refused(TypeError, ["shape"], comm.empty, "torch", "23")
        self.refused(ValueError, ['"C" or "F"'], comm.empty, "torch", 2, None, "K")
        x.fill_(2.0)
        comm.all_reduce_(x.permute(2, 1, 0), "torch")
        self.assertEqual(x.sum().item(), 48.0)
        comm.finish()

    def test_an_empty_tensor_backs_a_window(self):
        def work(comm):
            rank, size = comm.rank
            x = comm.empty("torch", 8)
            x.copy_(torch.arange(8.0) + 100 * rank)
            window = comm.window(x, "torch")
            comm.barrier()
            comm.put_signal(window, (0, 3), (rank + 1) % size, 5)
            comm.wait_signal((rank - 1) % size)
            comm.barrier()
            comm.close(window)
            return x.tolist()

        for rank, x in enumerate(ranks(2, work)):
            mine, theirs = 100.0 * rank, 100.0 * (1 - rank)
            self.assertEqual(x[:5], [mine + n for n in range(5)])
            self.assertEqual(x[5:], [theirs + n for n in range(3)])

    def test_memory_of_empty_goes_back_with_the_tensor(self):
        comm = alone()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for n in range(24):
            x = comm.empty("torch", 4 << 20).fill_(n)
            view = x[1:]
            del x
            self.assertEqual(view[-1].item(), n)
        comm.finish()
        self.assertEqual((view.min().item(), view.max().item()), (23.0, 23.0))  # after every handle in Rust
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertLess(grown, 128 << 10, "KiB of 24 times 16 MiB stayed")

    def test_a_window_keeps_memory_whose_tensor_died(self):
        def work(comm):
            rank, size = comm.rank
            x = comm.empty("torch", 8).fill_(rank)
            address = x.data_ptr()
            window = comm.window(x, "torch")
            del x
            gc.collect()
            others = [comm.empty("torch", 8) for _ in range(8)]
            self.assertNotIn(address, [other.data_ptr() for other in others])
            comm.put_signal(window, (0, 4), (rank + 1) % size, 4)
            comm.wait_signal((rank - 1) % size)
            comm.close(window)

        ranks(2, work)

    def test_other_memory_backs_no_window(self):
        comm = alone()
        self.refused(ValueError, ["empty"], comm.window, torch.zeros(4), "torch")
        comm.finish()


@with_numpy
class Numpy(Case):
    def test_all_reduce_in_an_arrays_own_memory(self):
        def work(comm):
            x = numpy.arange(12, dtype=numpy.float64).reshape(3, 4) + comm.rank[0]
            address = x.ctypes.data
            comm.all_reduce_(x, "numpy")
            self.assertEqual(x.ctypes.data, address)
            return x.tolist()

        wanted = (numpy.arange(12.0).reshape(3, 4) * 2 + 1).tolist()
        self.assertEqual(ranks(2, work), [wanted] * 2)

    def test_what_resolve_finds(self):
        x = numpy.zeros((3, 4), dtype=numpy.int32)
        self.assertEqual(ours.resolve(x, "numpy"), (x.ctypes.data, 12, 2, None))
        address, dtype, shape, strides, _ = ours.describe(x.T, "numpy")
        self.assertEqual((address, dtype, shape, strides), (x.ctypes.data, "i32", [4, 3], [1, 4]))
        self.assertEqual(ours.describe(numpy.array(1.0), "numpy")[1:3], ("f64", []))
        for name in ["int8", "uint8", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex64", "complex128"]:
            x = alone().empty("numpy", 3, ours.describe(numpy.zeros(1, name), "numpy")[1])
            self.assertEqual(x.dtype, numpy.dtype(name))

    def test_faults(self):
        x = numpy.zeros((4, 6), dtype=numpy.float32)
        resolve = ours.resolve
        self.refused(TypeError, ["`list`"], resolve, [1.0], "numpy")
        for dtype in ["clongdouble", "U3", "M8[s]"]:
            self.refused(ValueError, [str(numpy.dtype(dtype))], resolve, numpy.zeros(3, dtype), "numpy")
        self.refused(ValueError, [">f4"], resolve, numpy.zeros(3, ">f4"), "numpy")
        for part in [x[:, :3], x[::2], x[::-1], numpy.broadcast_to(x[0], (3, 6))]:
            self.refused(ValueError, ["numpy.ascontiguousarray(x)"], resolve, part, "numpy")
        odd = numpy.zeros(17, dtype=numpy.uint8)[1:].view(numpy.float32)
        self.refused(ValueError, ["multiple of 4"], resolve, odd, "numpy")
        fields = numpy.zeros(4, dtype=[("a", "u1"), ("b", "<f4")])["b"]
        self.refused(ValueError, ["numpy.ascontiguousarray(x)"], resolve, fields, "numpy")
        self.refused(ValueError, ["no elements"], resolve, numpy.zeros((0, 3)), "numpy")

    def test_another_order_than_cs_is_refused(self):
        comm, x = alone(), numpy.zeros((4, 6), dtype=numpy.float32)
        for y in [x.T, numpy.asfortranarray(x), x.reshape(2, 2, 6).transpose(1, 0, 2)]:
            words = ["of numpy", "C order", "numpy.ascontiguousarray(x)", "x.transpose(..)"]
            self.refused(ValueError, words, comm.all_reduce_, y, "numpy")
            self.refused(ValueError, words, comm.hold, y, "numpy")
            self.refused(ValueError, ["C order"], comm.all_reduce_any_, y)
            comm.all_reduce_(numpy.ascontiguousarray(y), "numpy")
        comm.all_reduce_(x.T.T, "numpy")
        comm.all_reduce_(numpy.asfortranarray(numpy.zeros((4, 1))), "numpy")
        x = comm.empty("numpy", (2, 3), "f32", "F")
        self.refused(ValueError, ["C order"], comm.window, x, "numpy")
        comm.close(comm.window(x.T, "numpy"))
        comm.finish()

    def test_read_only(self):
        def work(comm):
            x, y = numpy.ones(4), numpy.zeros(4)
            x.flags.writeable = False
            self.refused(ValueError, ["read-only"], comm.all_reduce_, x, "numpy")
            comm.all_reduce(x, y, "numpy")
            return y.tolist()

        self.assertEqual(ranks(1, work), [[1.0] * 4])

    def test_empty(self):
        comm = alone()
        for shape, found in [(5, (5,)), ((2, 3), (2, 3)), ((), ())]:
            x = comm.empty("numpy", shape)
            self.assertEqual((x.shape, x.dtype), (found, numpy.dtype("float64")))
            self.assertTrue(x.flags.c_contiguous and x.flags.writeable and not x.flags.owndata)
        x = comm.empty("numpy", (2, 3), "f32", "F")
        self.assertTrue(x.flags.f_contiguous and not x.flags.c_contiguous)
        x[:] = 3
        comm.all_reduce_(x.T, "numpy")
        self.assertEqual(x.sum(), 18)
        comm.finish()

    @with_ml_dtypes
    def test_types_of_ml_dtypes(self):
        comm = alone()
        for name in ["bf16", "f8e4m3", "f8e5m2"]:
            self.assertEqual(ours.describe(comm.empty("numpy", 3, name), "numpy")[1], name)
        comm.finish()

    def test_an_empty_array_backs_a_window(self):
        def work(comm):
            rank, size = comm.rank
            x = comm.empty("numpy", 4, "f32")
            x[:] = rank
            window = comm.window(x, "numpy")
            comm.barrier()
            comm.put_signal(window, (0, 1), (rank + 1) % size, 2)
            comm.wait_signal((rank - 1) % size)
            comm.barrier()
            comm.close(window)
            return x.tolist()

        self.assertEqual(ranks(2, work), [[0.0, 0.0, 1.0, 0.0], [1.0, 1.0, 0.0, 1.0]])


def standing_for_cupy():
    """A module with what `resolve` asks CuPy for: its arrays name memory of no GPU."""
    cupy, stream = types.ModuleType("cupy"), type("Stream", (), {"ptr": 4096})
    cupy.dtype = str
    cupy.ndarray = type("ndarray", (), {})
    cupy.cuda = types.SimpleNamespace(current=None, get_current_stream=lambda gpu: cupy.cuda.current)

    def array():
        x = cupy.ndarray()
        x.dtype, x.shape, x.strides = cupy.dtype("float32"), (2, 3), (12, 4)
        x.data = types.SimpleNamespace(ptr=8192, device_id=0)
        return x

    return cupy, stream, array


@unittest.skipIf(installed("cupy"), "CuPy is installed: gpu.py tests it")
class Cupy(Case):
    def test_a_tensor_keeps_its_stream(self):
        cupy, stream, array = standing_for_cupy()
        sys.modules["cupy"] = cupy
        self.addCleanup(sys.modules.pop, "cupy")
        x, cupy.cuda.current = array(), stream()
        dies = weakref.ref(cupy.cuda.current)
        tensor = ours.kept(x, "cupy")
        # As at the end of `with cupy.cuda.Stream():`.
        cupy.cuda.current = stream()
        gc.collect()
        self.assertIsNotNone(dies(), "the handle that the tensor has would be destroyed")
        del tensor
        gc.collect()
        self.assertIsNone(dies())


class Objects(Case):
    """DLPack and the array interfaces, of objects that nothing is known of."""

    def test_our_memory_as_an_object(self):
        x = ours.exported((2, 3))
        self.assertEqual(x.__dlpack_device__(), (1, 0))
        interface = x.__array_interface__
        self.assertEqual((interface["shape"], interface["typestr"], interface["version"]), ((2, 3), "<f4", 3))
        self.assertFalse(hasattr(x, "__cuda_array_interface__"))
        with self.assertRaises(BufferError):
            x.__dlpack__(copy=True)
        with self.assertRaises(BufferError):
            x.__dlpack__(dl_device=(2, 0))
        address, dtype, shape, strides, _ = ours.describe(x)
        self.assertEqual((address, dtype, shape), (interface["data"][0], "f32", [2, 3]))
        self.assertIn(strides, [None, [3, 1]])
        # Of either form, and one that nobody takes.
        x.__dlpack__()
        x.__dlpack__(max_version=(1, 0))

    @with_numpy
    def test_an_export_is_claimed_until_it_is_taken(self):
        x = numpy.zeros(1000, dtype=numpy.float32)
        refusal, total = ours.claimed_until_taken(x)
        self.assertNotEqual(refusal, "", "the elements are in use")
        self.assertEqual(total, 2000.0)

    @with_numpy
    def test_there_and_back_by_numpy(self):
        x = ours.exported((2, 3), "F")
        by_interface = numpy.asarray(x)
        self.assertEqual(by_interface.tolist(), [[0.0, 2.0, 4.0], [1.0, 3.0, 5.0]])
        self.assertEqual(by_interface.ctypes.data, x.__array_interface__["data"][0])
        by_dlpack = numpy.from_dlpack(x)
        self.assertEqual(by_dlpack.tolist(), by_interface.tolist())
        self.assertEqual(by_dlpack.ctypes.data, by_interface.ctypes.data)
        y = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
        address, dtype, shape, *_ = ours.describe(y)
        self.assertEqual((address, dtype, shape), (y.ctypes.data, "f32", [2, 3]))
        del x, by_interface
        gc.collect()
        self.assertEqual(by_dlpack.sum(), 15.0)

    @with_torch
    def test_there_and_back_by_torch(self):
        x = ours.exported((2, 3))
        y = torch.from_dlpack(x)
        self.assertEqual(y.data_ptr(), ours.describe(x)[0])
        self.assertEqual(y.tolist(), [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
        address, dtype, shape, *_ = ours.describe(y)
        self.assertEqual((address, dtype, shape), (y.data_ptr(), "f32", [2, 3]))
        del x
        gc.collect()
        self.assertEqual(y.sum().item(), 15.0)

    @with_torch
    def test_all_reduce_of_an_object_with_dlpack(self):
        def work(comm):
            x = torch.ones(5)
            comm.all_reduce_any_(x)
            return x.tolist()

        self.assertEqual(ranks(2, work), [[2.0] * 5] * 2)

    def test_wrong_objects(self):
        self.refused(TypeError, ["`object`"], ours.describe, object())

        class Wrong:
            def __dlpack__(self, **_):
                return 3

            def __dlpack_device__(self):
                return (1, 0)

        with self.assertRaises(TypeError):
            ours.describe(Wrong())

    def test_what_an_object_raises_is_raised(self):
        class Raises:
            def __dlpack__(self, **_):
                raise KeyError("mine")

            def __dlpack_device__(self):
                return (1, 0)

        with self.assertRaisesRegex(KeyError, "mine"):
            ours.describe(Raises())

    def test_cuda_array_interface_without_what_it_needs(self):
        class Array:
            def __init__(self, **entries):
                self.__cuda_array_interface__ = {
                    "version": 3, "shape": (4,), "typestr": "<f4", "data": (4096, False), **entries}

        self.refused(ValueError, ["<c32"], ours.describe, Array(typestr="<c32"))
        self.refused(ValueError, [">f4"], ours.describe, Array(typestr=">f4"))
        self.refused(ValueError, ["no elements"], ours.describe, Array(shape=(0,), data=(0, False)))
        self.refused(ValueError, ["null"], ours.describe, Array(data=(0, False)))
        self.refused(TypeError, ["mask"], ours.describe, Array(mask=object()))
        self.refused(ValueError, ["strides"], ours.describe, Array(strides=(6,)))


if __name__ == "__main__":
    unittest.main(verbosity=2)

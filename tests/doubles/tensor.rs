//! Other libraries' tensors on GPUs: in the order of their streams, without a copy, and in NCCL's
//! memory that is returned once nothing refers to it or uses it.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream};
use fake_cuda::Code;
use nccl_sys::Function::{ncclAllReduce, ncclCommWindowRegister, ncclMemAlloc, ncclMemFree};
use typed_nccl::interop::{Described, Exported, Tensor, TensorPlace};
use typed_nccl::{AnyDevice, Buffer, Cuda, DType, DynBuffer, Error, NcclMem, Result, Stream, Sum};

use crate::common::{alone, calls, clear, count, handle};
use crate::scenario::{NEWEST, cuda, on};

type Gpu = Cuda<AnyDevice>;

/// How often this driver function was called.
fn called(function: &str) -> usize {
    cuda().called().iter().filter(|name| **name == function).count()
}

/// Nothing moved or allocated memory, and the host did not wait.
#[track_caller]
fn assert_no_copy() {
    let wanted = |name: &&&str| {
        name.starts_with("cuMemAlloc")
            || name.starts_with("cuMemcpy")
            || name.ends_with("Synchronize")
    };
    let called = cuda().called();
    assert_eq!(called.iter().find(wanted), None);
    assert_eq!(count(ncclMemAlloc), 0);
}

fn stream() -> Arc<CudaStream> {
    let context = CudaContext::new(0).expect("the double's");
    context.new_stream().expect("a stream")
}

fn raw(stream: &CudaStream) -> u64 {
    stream.cu_stream().addr() as u64
}

/// A tensor on a foreign stream, with its owner.
fn tensor<O>(address: usize, stream: &CudaStream, owner: O) -> Tensor<O> {
    let stream = Some(stream.cu_stream().addr());
    let place = TensorPlace::OnGpu { ordinal: 0, stream };
    let (library, shape, strides) = ("torch", vec![10, 10], None);
    let described =
        Described { library, address, dtype: DType::F32, shape, strides, place, writable: true };
    // SAFETY: the tests keep the memory and the stream.
    unsafe { Tensor::new(described, owner) }.expect("well described")
}

/// Foreign memory, never freed.
fn memory(stream: &Arc<CudaStream>) -> usize {
    let start = stream.clone_htod(&[1.0_f32; 100]).expect("there is memory").leak();
    stream.synchronize().expect("no fault");
    start as usize
}

/// Whether work enqueued on a stream of ours next would run now.
fn runs(stream: &Stream<Gpu>) -> Result<bool> {
    stream.mark()?.is_reached()
}

/// Whether work enqueued on a foreign stream next would run now.
fn goes_on(stream: &CudaStream) -> bool {
    stream.record_event(None).expect("an event").is_complete()
}

#[test]
fn a_lent_tensor_is_ordered_with_its_stream_and_the_host_does_not_wait() {
    on(NEWEST, || {
        let comm = alone()?;
        let theirs = stream();
        let (x, y) = (memory(&theirs), memory(&theirs));
        let (x, mut y) = (tensor(x, &theirs, ()), tensor(y, &theirs, ()));
        let own = handle(comm.stream())?;
        cuda().hold(raw(&theirs));
        clear();
        comm.device().lend((&x, &mut y), |(x, y)| comm.all_reduce(x, y, Sum))?;
        assert_no_copy();
        let call = &calls(ncclAllReduce)[0];
        let found = (call.pointer("sendbuff"), call.pointer("recvbuff"), call.int("count"));
        assert_eq!(found, (x.address(), y.address(), 100));
        assert!(!runs(comm.stream())?, "ours would overtake theirs");
        cuda().release(raw(&theirs));
        assert!(runs(comm.stream())?);

        cuda().hold(own);
        comm.device().lend(&mut y, |y| comm.all_reduce_in_place(y, Sum))?;
        assert!(!goes_on(&theirs), "theirs would overtake ours");
        // The elements are free again for later uses.
        comm.device().lend(&mut y, |_| Ok(()))?;
        cuda().release(own);
        assert!(goes_on(&theirs));
        comm.finish()
    });
}

#[test]
fn a_tensor_that_is_a_buffer_is_ordered_with_its_stream() {
    on(NEWEST, || {
        let comm = alone()?;
        let theirs = stream();
        let address = memory(&theirs);
        let own = handle(comm.stream())?;
        let named = Arc::new(());
        cuda().hold(raw(&theirs));
        clear();
        let mut x = tensor(address, &theirs, named.clone()).on(comm.device())?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_no_copy();
        assert!(!runs(comm.stream())?, "ours would overtake theirs");
        cuda().release(raw(&theirs));
        assert!(runs(comm.stream())?);

        cuda().hold(own);
        comm.all_reduce_in_place(&mut x, Sum)?;
        let again = tensor(address, &theirs, ());
        let outcome = comm.device().lend(&again, |_| Ok(()));
        assert_error!(outcome, NotAdoptable, "in use", "`on` of torch");
        drop(x);
        assert_eq!(Arc::strong_count(&named), 2, "its owner is let go while it is in use");
        assert!(!goes_on(&theirs), "theirs would overtake ours");
        // Later work comes after our uses.
        comm.device().lend(&again, |_| Ok(()))?;
        cuda().release(own);
        assert!(goes_on(&theirs));
        let _ = comm.device().zeros::<u8>(1)?;
        assert_eq!(Arc::strong_count(&named), 1);

        // If their stream cannot wait, the elements stay in use until our uses are over.
        let mut x = tensor(address, &theirs, ()).on(comm.device())?;
        cuda().hold(own);
        comm.all_reduce_in_place(&mut x, Sum)?;
        cuda().fail("cuStreamWaitEvent", Code::UNKNOWN);
        drop(x);
        let outcome = comm.device().lend(&again, |_| Ok(()));
        assert_error!(outcome, NotAdoptable, "in use");
        cuda().release(own);
        let _ = comm.device().zeros::<u8>(1)?;
        comm.device().lend(&again, |_| Ok(()))?;
        comm.finish()
    });
}

#[test]
fn what_a_gpu_cannot_use_is_named_and_comes_back() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let values = vec![0.0_f32; 100];
        let theirs = stream();
        let at = |place| {
            let (address, library) = (values.as_ptr().addr(), "torch");
            let (dtype, shape, strides, writable) = (DType::F32, vec![100], None, true);
            let it = Described { library, address, dtype, shape, strides, place, writable };
            // SAFETY: it is refused.
            unsafe { Tensor::new(it, ()) }
        };
        for (pinned, kind) in [(false, "pageable"), (true, "page-locked")] {
            let mut x = at(TensorPlace::OnHost { pinned })?;
            let outcome = device.lend(&mut x, |_| Ok(()));
            assert_error!(outcome, NotAdoptable, "lend, of torch", kind, "`x.to(\"cuda:0\")`");
            let failed = x.on(&device).expect_err("on the host");
            crate::common::says(&failed.error, &["on, of torch", kind]);
            let failed = failed.value.nccl_on(&device).expect_err("on the host");
            crate::common::says(&failed.error, &["nccl_on, of torch", kind]);
        }
        let stream = Some(raw(&theirs) as usize);
        let x = at(TensorPlace::OnGpu { ordinal: 2, stream })?;
        assert_error!(device.lend(&x, |_| Ok(())), OtherDevice, "lend", "cuda:2", "cuda:0");
        let failed = x.on(&device).expect_err("another GPU");
        assert!(matches!(failed.error, Error::OtherDevice(_)), "{}", failed.error);
        let failed = failed.value.nccl_on(&device).expect_err("another GPU");
        assert!(matches!(failed.error, Error::OtherDevice(_)), "{}", failed.error);
        let x = tensor(memory(&theirs), &theirs, ());
        let failed = x.nccl_on(&device).expect_err("not NCCL's");
        crate::common::says(&failed.error, &["nccl_on", "`interop::torch::empty`"]);
        device.lend(&failed.value, |_| Ok(()))
    });
}

/// NCCL's memory as another library sees it.
fn empty(device: &Gpu, theirs: &CudaStream) -> Result<Tensor<Arc<Exported>>> {
    let memory = DynBuffer::nccl_zeros(device, DType::F32, 100)?;
    let exported = Tensor::export(memory, &[10, 10], None)?;
    Ok(tensor(exported.address(), theirs, Arc::new(exported.into_inner())))
}

#[test]
fn exported_memory_backs_a_window_and_lives_while_it_is_named() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let device = comm.device().clone();
        let theirs = stream();
        let own = handle(comm.stream())?;
        cuda().set_virtual(2 << 20);
        clear();
        let x = empty(&device, &theirs)?;
        let address = x.address();
        assert_eq!(count(ncclMemAlloc), 1);
        let again = tensor(address, &theirs, ());
        clear();
        cuda().hold(raw(&theirs));
        let x: Buffer<f32, Gpu, NcclMem> = x.nccl_on(&device)?.typed()?;
        cuda().release(raw(&theirs));
        let outcome = device.lend(&again, |_| Ok(()));
        assert_error!(outcome, NotAdoptable, "in use", "`nccl_on` of torch");
        let mut window = comm.register_window(x)?;
        assert_eq!(window.user_ptr().addr(), address);
        assert_eq!(calls(ncclCommWindowRegister)[0].pointer("buff"), address);
        comm.all_reduce_in_place(&mut window, Sum)?;
        assert_eq!((count(ncclMemAlloc), called("cuMemcpyDtoDAsync_v2")), (0, 0));

        // The object is dropped first, then the buffer, while the window stays.
        let other = device.nccl_zeros::<f32>(100)?;
        assert_eq!(count(ncclMemAlloc), 1, "it was given out while a window has it");
        let x = comm.close(window)?;
        cuda().hold(own);
        let mut x = x;
        comm.all_reduce_in_place(&mut x, Sum)?;
        drop(x);
        assert!(!goes_on(&theirs), "theirs would overtake ours");
        let third = device.nccl_zeros::<f32>(100)?;
        assert_eq!(count(ncclMemAlloc), 2, "it was given out in use");
        cuda().release(own);
        // The first check drops the last reference; the next one reuses the memory.
        drop(device.zeros::<u8>(1)?);
        let fourth = device.nccl_zeros::<f32>(100)?;
        assert_eq!(count(ncclMemAlloc), 2, "it did not come back");
        drop((other, third, fourth));
        comm.finish()
    });
}

#[test]
fn exported_memory_comes_back_when_the_device_is_past_it() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let theirs = stream();
        let given_out = |what: &str, times: usize| -> Result<()> {
            clear();
            let buffer = device.nccl_zeros::<f32>(100)?;
            assert_eq!(count(ncclMemAlloc), times, "{what}");
            // Ours, and gone.
            drop(buffer);
            device.trim()
        };
        // A stream that this library does not know.
        let x = empty(&device, &theirs)?;
        cuda().hold(raw(&theirs));
        drop(x);
        given_out("it was given out while their stream uses it", 1)?;
        assert_eq!(count(ncclMemFree), 1, "only the other one is free");
        cuda().release(raw(&theirs));
        given_out("it did not come back", 0)?;
        assert_eq!(count(ncclMemFree), 1);

        // A driver that cannot record all work: kept until the program trims, which waits.
        let x = empty(&device, &theirs)?;
        drop(x);
        for _ in 0..2 {
            cuda().fail("cuCtxRecordEvent", Code::NOT_SUPPORTED);
        }
        clear();
        let other = device.nccl_zeros::<f32>(100)?;
        assert_eq!(count(ncclMemAlloc), 1, "it was given out");
        device.trim()?;
        assert_eq!((called("cuCtxSynchronize"), count(ncclMemFree)), (1, 1));
        drop(other);
        Ok(())
    });
}

#[test]
fn an_export_hands_over() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let (theirs, ours) = (stream(), device.stream()?);
        let mut x = DynBuffer::nccl_zeros(&device, DType::F32, 100)?.typed::<f32>()?;
        cuda().hold(handle(&ours)?);
        ours.launch(&mut x, |_, _| ())?;
        clear();
        let handed = theirs.cu_stream().addr();
        // SAFETY: the stream stays.
        let x = unsafe { Tensor::export_on(x.into_dyn(), &[100], None, handed) }?;
        assert_no_copy();
        assert!(!goes_on(&theirs), "theirs would overtake ours");
        assert_eq!(x.place(), TensorPlace::OnGpu { ordinal: 0, stream: Some(handed) });
        cuda().release(handle(&ours)?);
        assert!(goes_on(&theirs));
        Ok(())
    });
}

/// CUDA's per-thread default stream is another one on each thread: a tensor remembers whose it has.
#[test]
fn a_per_thread_stream_is_that_of_the_thread_that_named_it() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let address = memory(&stream());
        let place = TensorPlace::OnGpu { ordinal: 0, stream: Some(2) };
        let (library, shape) = ("cupy", vec![100]);
        let described = || Described {
            library,
            address,
            dtype: DType::F32,
            shape: shape.clone(),
            strides: None,
            place,
            writable: true,
        };
        // SAFETY: the memory is never freed.
        let mut x = unsafe { Tensor::new(described(), ()) }?;
        device.lend(&mut x, |_| Ok(()))?;
        let there = device.clone();
        let other = std::thread::spawn(move || -> Result<Tensor> {
            let lent = there.lend(&mut x, |_| Ok(()));
            assert_error!(lent, NotAdoptable, "lend, of cupy", "another stream on each thread");
            let failed = x.on(&there).expect_err("another thread's");
            crate::common::says(&failed.error, &["on, of cupy", "another stream on each thread"]);
            Ok(failed.value)
        });
        let x = other.join().expect("no panic")?;
        drop(x.on(&device)?);
        Ok(())
    });
}

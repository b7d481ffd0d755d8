//! cudarc's memory and streams: adopted and lent without a copy, ordered with both sides.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaSlice, CudaStream, DevicePtrMut as _};
use nccl_sys::Function::{ncclAllReduce, ncclBroadcast};
use typed_nccl::{AnyDevice, Buffer, Cuda, Error, ForeignMemory, Mark, Result, Stream, Sum};

use crate::common::{address, alone, calls, clear, handle, until};
use crate::scenario::{NEWEST, cuda, on};

type Gpu = Cuda<AnyDevice>;

/// How often this driver function was called.
fn called(function: &str) -> usize {
    cuda().called().iter().filter(|name| **name == function).count()
}

/// Functions that move or allocate memory.
const NOT_WANTED: [&str; 8] = [
    "cuMemAlloc_v2",
    "cuMemAllocAsync",
    "cuMemHostAlloc",
    "cuMemcpyDtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuMemcpyHtoDAsync_v2",
    "cuMemsetD8Async",
    "cuStreamSynchronize",
];

#[track_caller]
fn assert_no_copy() {
    for function in NOT_WANTED {
        assert_eq!(called(function), 0, "{function}");
    }
}

fn context(ordinal: usize) -> Arc<CudaContext> {
    CudaContext::new(ordinal).expect("the double's")
}

fn values(stream: &Arc<CudaStream>, of: f32) -> CudaSlice<f32> {
    stream.clone_htod(&[of; 100]).expect("there is memory")
}

fn raw(stream: &CudaStream) -> u64 {
    stream.cu_stream().addr() as u64
}

/// Whether work enqueued on the stream next would run now.
fn runs(stream: &Stream<Gpu>) -> Result<bool> {
    let mark: Mark<Gpu> = stream.mark()?;
    mark.is_reached()
}

#[test]
fn an_adopted_slice_is_an_operand_without_a_copy() {
    on(NEWEST, || {
        let comm = alone()?;
        let theirs = context(0).new_stream().expect("a stream");
        let slice = values(&theirs, 3.0);
        let start = {
            use cudarc::driver::DevicePtr;
            slice.device_ptr(&theirs).0
        };
        let pieces = cuda().live().pieces;
        clear();
        let mut x = comm.device().adopt(slice)?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        let call = &calls(ncclAllReduce)[0];
        assert_eq!(call.pointer("recvbuff") as u64, start);
        let slice: CudaSlice<f32> = x.into_inner()?;
        assert_no_copy();
        assert_eq!(cuda().live().pieces, pieces);
        assert_eq!(theirs.clone_dtoh(&slice).expect("there"), [3.0; 100]);
        comm.finish()
    });
}

#[test]
fn an_adopted_slice_waits_for_what_its_owner_did() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let context = context(0);
        let (first, second) = (context.new_stream(), context.new_stream());
        let (first, second) = (first.expect("a stream"), second.expect("a stream"));
        let ours = device.stream()?;
        for held in [&first, &second] {
            let mut slice = values(&first, 1.0);
            cuda().hold(raw(held));
            // A use that cudarc has ordered by an event, on a stream other than the slice's.
            second.memset_zeros(&mut slice).expect("enqueued");
            let mut x = device.adopt(slice)?;
            ours.launch(&mut x, |_, _| ())?;
            assert!(!runs(&ours)?, "it would overtake its owner");
            cuda().release(raw(held));
            assert!(runs(&ours)?);
            x.into_inner()?;
        }
        Ok(())
    });
}

#[test]
fn an_owner_is_dropped_when_the_streams_have_passed() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let theirs = context(0).new_stream().expect("a stream");
        let ours = device.stream()?;
        let adopted = |of| device.adopt(values(&theirs, of)).map_err(Error::from);
        let mut x = adopted(1.0)?;
        cuda().hold(handle(&ours)?);
        ours.launch(&mut x, |_, _| ())?;
        clear();
        drop(x);
        assert_eq!(called("cuMemFreeAsync"), 0, "it is in use");
        // At once if nothing uses it; and it is not reused as memory of ours.
        drop(adopted(2.0)?);
        assert_eq!(called("cuMemFreeAsync"), 1);
        cuda().release(handle(&ours)?);
        let other = device.zeros::<f32>(100)?;
        assert_eq!(called("cuMemFreeAsync"), 2, "whoever looks next drops it");
        drop(other);

        let mut x = adopted(3.0)?;
        cuda().hold(handle(&ours)?);
        ours.launch(&mut x, |_, _| ())?;
        drop(x);
        cuda().release(handle(&ours)?);
        let other = adopted(4.0)?;
        assert_eq!(called("cuMemFreeAsync"), 3, "so does one who adopts");
        drop(other);
        Ok(())
    });
}

#[test]
fn a_lent_slice_is_ordered_with_its_owner_and_the_host_does_not_wait() {
    on(NEWEST, || {
        let comm = alone()?;
        let context = context(0);
        let (theirs, other) = (context.new_stream(), context.new_stream());
        let (theirs, other) = (theirs.expect("a stream"), other.expect("a stream"));
        let (x, mut y) = (values(&theirs, 4.0), values(&theirs, 0.0));
        let own = handle(comm.stream())?;
        let state = |stream: &CudaStream| {
            let event = stream.record_event(None).expect("an event");
            event.is_complete()
        };

        // Our uses come after theirs.
        cuda().hold(raw(&theirs));
        clear();
        comm.device().lend((&x, &mut y), |(x, y)| comm.all_reduce(x, y, Sum))?;
        assert_no_copy();
        assert!(!runs(comm.stream())?, "ours would overtake theirs");
        cuda().release(raw(&theirs));
        assert!(runs(comm.stream())?);

        // Their uses come after ours, on the slice's stream and on others; reads may overlap.
        cuda().hold(own);
        comm.device().lend((&x, y.slice_mut(..50)), |(x, y)| {
            comm.broadcast_in_place(y, 0)?;
            assert_eq!(x.len(), 100);
            Ok(())
        })?;
        assert_eq!(calls(ncclBroadcast)[0].int("count"), 50);
        other.memset_zeros(&mut y).expect("enqueued");
        assert!(!state(&other), "theirs would overtake ours");
        assert!(!state(&theirs), "so would a free");
        cuda().release(own);
        assert!(state(&other) && state(&theirs));
        assert_eq!(theirs.clone_dtoh(&y).expect("there"), [0.0; 100]);
        comm.finish()
    });
}

#[test]
fn a_lent_slice_without_events_is_ordered_by_its_stream() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let context = context(0);
        // One stream: cudarc records no events.
        let theirs = context.default_stream();
        assert!(!context.is_managing_stream_synchronization());
        let mut x = theirs.alloc_zeros::<u8>(10).expect("there is memory");
        let ours = device.stream()?;
        cuda().hold(handle(&ours)?);
        device.lend(&mut x, |x| ours.launch(x, |_, _| ()))?;
        clear();
        drop(x);
        assert_eq!(called("cuMemFreeAsync"), 1);
        let freed = theirs.record_event(None).expect("an event");
        assert!(!freed.is_complete(), "freed while it is in use");
        cuda().release(handle(&ours)?);
        assert!(freed.is_complete());
        Ok(())
    });
}

#[test]
fn a_loan_that_cannot_be_ordered_waits() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let theirs = context(0).new_stream().expect("a stream");
        let mut x = values(&theirs, 1.0);
        let ours = device.stream()?;
        let own = handle(&ours)?;
        cuda().hold(own);
        let mut failing = || {
            device.lend(&mut x, |x| {
                ours.launch(x, |_, _| ())?;
                cuda().fail("cuStreamWaitEvent", fake_cuda::Code::UNKNOWN);
                Ok(())
            })
        };
        let outcome = std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                cuda().release(own);
            });
            let outcome = failing();
            assert!(ours.mark().and_then(|mark| mark.is_reached()) == Ok(true), "it is in use");
            outcome
        });
        assert_error!(outcome, CudaFailed, "waiting for an event");
        Ok(())
    });
}

#[test]
fn an_adopted_stream_is_theirs() {
    on(NEWEST, || {
        let comm = alone()?;
        let device = comm.device().clone();
        let context = context(0);
        let made = context.new_stream().expect("a stream");
        for theirs in [made, context.default_stream()] {
            let stream = Stream::adopt(&device, theirs.clone())?;
            assert_eq!(handle(&stream)?, raw(&theirs));
            let mut x = device.zeros::<f32>(10)?;
            comm.on(&stream).all_reduce_in_place(&mut x, Sum)?;
            let last = calls(ncclAllReduce).len() - 1;
            assert_eq!(calls(ncclAllReduce)[last].pointer("stream") as u64, raw(&theirs));
            // Uses here and on our streams are ordered.
            cuda().hold(raw(&theirs));
            comm.all_reduce_in_place(&mut x, Sum)?;
            assert!(!runs(comm.stream())?, "ours would overtake theirs");
            cuda().release(raw(&theirs));
            let again = stream.launch((), |(), raw| drop(raw.to_cudarc()));
            again?;
        }
        comm.finish()
    });
}

/// Memory of a program's own, which a stream of its own writes.
struct Written {
    slice: CudaSlice<f32>,
    after: Option<Mark<Gpu>>,
}

// SAFETY: the slice is a view of this many floats that nobody else uses but its stream, before the
// mark.
unsafe impl ForeignMemory<Gpu> for Written {
    type Elem = f32;

    fn start(&mut self) -> *mut f32 {
        let stream = self.slice.stream().clone();
        let (start, _use) = self.slice.device_ptr_mut(&stream);
        start as *mut f32
    }

    fn elements(&self) -> usize {
        self.slice.len()
    }

    fn ready(&mut self, _: &Gpu) -> Result<Option<Mark<Gpu>>> {
        Ok(self.after.take())
    }
}

/// Each mark of a stream that the program keeps is after what others enqueued there.
#[test]
fn memory_that_others_write_again_and_again() {
    on(NEWEST, || {
        let comm = alone()?;
        let device = comm.device().clone();
        let context = context(0);
        let theirs = context.new_stream().expect("a stream");
        let kept = Stream::adopt(&device, theirs.clone())?;
        for _ in 0..3 {
            let slice = values(&theirs, 1.0);
            cuda().hold(raw(&theirs));
            let after = Some(kept.mark()?);
            let x = device.adopt(Written { slice, after })?;
            let mut y = device.zeros::<f32>(x.len())?;
            comm.all_reduce(&x, &mut y, Sum)?;
            assert!(!runs(comm.stream())?, "ours would overtake theirs");
            cuda().release(raw(&theirs));
            comm.sync(comm.stream())?;
        }
        comm.finish()
    });
}

#[test]
fn a_stream_that_is_adopted_is_not_given_out_and_stays_while_it_is_needed() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let theirs = context(0).new_stream().expect("a stream");
        let its = raw(&theirs);
        let stream = Stream::adopt(&device, theirs)?;
        let mut x = device.zeros::<f32>(10)?;
        stream.launch(&mut x, |_, _| ())?;
        drop(stream);
        assert_eq!(called("cuStreamDestroy_v2"), 0, "`x` may have to wait for it");
        x.copy_from(&[1.0; 10])?;
        assert_ne!(handle(&device.stream()?)?, its);
        drop(x);
        until("nothing needs it", || {
            let _ = device.zeros::<f32>(10);
            called("cuStreamDestroy_v2") == 1
        });
        Ok(())
    });
}

#[test]
fn streams_are_ordered_by_hand() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let theirs = context(0).new_stream().expect("a stream");
        let ours = device.stream()?;
        cuda().hold(raw(&theirs));
        ours.after(&theirs)?;
        assert!(!runs(&ours)?);
        cuda().release(raw(&theirs));
        assert!(runs(&ours)?);
        cuda().hold(handle(&ours)?);
        ours.before(&theirs)?;
        let event = theirs.record_event(None).expect("an event");
        assert!(!event.is_complete());
        cuda().release(handle(&ours)?);
        assert!(event.is_complete());
        Ok(())
    });
}

#[test]
fn what_cannot_be_adopted_is_named_and_comes_back() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let there = context(1).new_stream().expect("a stream");
        let slice = values(&there, 1.0);
        let failed = device.adopt(slice).expect_err("another device");
        assert!(matches!(failed.error, Error::OtherDevice(_)), "{failed}");
        let mut slice = failed.value;
        let outcome = device.lend(&mut slice, |_| Ok(()));
        assert_error!(outcome, OtherDevice, "lend", "cuda:1", "cuda:0");
        let outcome = Stream::adopt(&device, there);
        assert_error!(outcome, OtherDevice, "Stream::adopt", "cuda:1");
        let outcome = Stream::adopt(&device, context(0).per_thread_stream());
        assert_error!(outcome, NotAdoptable, "per-thread", "stream.after(&theirs)");
        // SAFETY: it is refused.
        let outcome = unsafe { Stream::from_raw(&device, std::ptr::without_provenance_mut(2)) };
        assert_error!(outcome, NotAdoptable, "Stream::from_raw", "per-thread");
        // SAFETY: the legacy stream always exists.
        let legacy = unsafe { Stream::from_raw(&device, std::ptr::null_mut()) }?;
        assert_eq!(handle(&legacy)?, 0);
        Ok(())
    });
}

#[test]
fn memory_by_address_is_an_operand() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let theirs = context(0).new_stream().expect("a stream");
        let start = values(&theirs, 2.0).leak();
        theirs.synchronize().expect("no fault");
        let pointer = std::ptr::with_exposed_provenance_mut::<f32>(start as usize);
        // SAFETY: the elements are leaked.
        let x = unsafe { Buffer::from_raw(&device, pointer, 100) }?;
        assert_eq!((address(&device.stream()?, &x)?, x.to_vec()?), (start, vec![2.0; 100]));
        clear();
        x.into_inner()?;
        assert_no_copy();
        Ok(())
    });
}

#[test]
fn copies_and_fills_are_the_drivers() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let stream = device.stream()?;
        macro_rules! of {
            ($($value:expr => $function:literal $times:literal),+ $(,)?) => { $({
                let value = $value;
                let (mut x, mut y) = (device.zeros(5)?, device.zeros(3)?);
                clear();
                stream.fill(&mut x.slice_mut(1..4), value)?;
                assert_eq!(called($function), $times, "{}", stringify!($value));
                stream.copy(&x.slice(2..5), &mut y)?;
                assert_eq!(called("cuMemcpyDtoDAsync_v2"), 1);
                assert_eq!(called("cuMemcpyDtoHAsync_v2"), 0);
                assert_eq!(y.to_vec()?, [value, value, Default::default()]);
                assert_eq!(x.to_vec()?, [Default::default(), value, value, value, Default::default()]);
            })+ };
        }
        of! {
            -2_i8 => "cuMemsetD8Async" 1,
            typed_nccl::f16::from_f32(1.5) => "cuMemsetD16Async" 1,
            -4.5_f32 => "cuMemsetD32Async" 1,
            -1_i64 => "cuMemsetD32Async" 1,
            -6.3_f64 => "cuMemsetD2D32Async" 2,
        }
        let mut nothing = device.zeros::<f32>(0)?;
        clear();
        stream.fill(&mut nothing, 1.0)?;
        assert_eq!(called("cuMemsetD32Async"), 0);
        Ok(())
    });
}

//! Stream order: which stream waits for which, and when the host waits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use fake_cuda::Code;
use typed_nccl::{AnyDevice, Buffer, Cuda, Result, Stream, Sum};

use crate::common::{alone, clear, handle, until};
use crate::scenario::{NEWEST, cuda, on};

type Gpu = Cuda<AnyDevice>;

/// Which stream waits for a recording on which, in order.
pub(crate) fn waits() -> Vec<(u64, u64)> {
    let log = cuda().log();
    let mut waits = Vec::new();
    for (at, call) in log.iter().enumerate() {
        if call.function == "cuStreamWaitEvent" {
            let event = call.argument("hEvent");
            let recorded = log[..at].iter().rfind(|earlier| {
                earlier.function == "cuEventRecord" && earlier.argument("hEvent") == event
            });
            let on = recorded.expect("recorded since the log was cleared").argument("hStream");
            waits.push((call.argument("hStream"), on));
        }
    }
    waits
}

/// Sets all elements of a buffer, on a stream.
fn write(stream: &Stream<Gpu>, x: &mut Buffer<f32, Gpu>, value: f32) -> Result<()> {
    let mut pinned = stream.device().pinned::<f32>(x.len())?;
    pinned.as_mut_slice().fill(value);
    drop(stream.upload(pinned, x)?);
    Ok(())
}

#[test]
fn a_use_on_another_stream_waits_for_the_first() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let (first, second) = (device.stream()?, device.stream()?);
        let (a, b) = (handle(&first)?, handle(&second)?);
        let mut x = device.from_slice(&[1.0_f32; 8])?;
        cuda().hold(a);
        write(&first, &mut x, 2.0)?;
        let to = device.pinned(8)?;
        clear();
        let copying = second.download(&x, to)?;
        assert_eq!(waits(), [(b, a)]);
        assert!(!copying.is_done()?, "the other stream is held");
        cuda().release(a);
        assert!(copying.is_done()?);
        assert_eq!(copying.wait()?.as_slice(), [2.0; 8]);

        // The same for NCCL operations.
        let comm = alone()?;
        clear();
        comm.all_reduce_in_place(&mut x, Sum)?;
        let own = handle(comm.stream())?;
        let mut waited = waits();
        waited.dedup();
        assert_eq!(waited, [(own, a)], "what was read on the other stream is over");
        clear();
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert_eq!(waits(), [], "in its own order");
        comm.finish()
    });
}

#[test]
fn reads_do_not_wait_for_reads() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let streams = [device.stream()?, device.stream()?, device.stream()?];
        let handles = [handle(&streams[0])?, handle(&streams[1])?, handle(&streams[2])?];
        let mut x = device.zeros::<f32>(8)?;
        let read = |stream: &Stream<Gpu>, x: &Buffer<f32, Gpu>| stream.launch(x, |_, _| ());
        handles.iter().for_each(|stream| cuda().hold(*stream));
        clear();
        read(&streams[0], &x)?;
        read(&streams[1], &x)?;
        assert_eq!(waits(), []);
        // A write waits for all of them, once.
        write(&streams[2], &mut x, 1.0)?;
        let mut waited = waits();
        waited.sort_unstable();
        assert_eq!(waited, [(handles[2], handles[0]), (handles[2], handles[1])]);
        // A reader after the write waits for the write alone.
        clear();
        read(&streams[0], &x)?;
        read(&streams[1], &x)?;
        assert_eq!(waits(), [(handles[0], handles[2]), (handles[1], handles[2])]);
        Ok(())
    });
}

#[test]
fn the_host_waits_for_writers_before_it_reads() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let stream = device.stream()?;
        let held = handle(&stream)?;
        let mut x = device.from_slice(&[1.0_f32; 8])?;
        cuda().hold(held);
        stream.launch(&x, |_, _| ())?;
        assert_eq!(x.to_vec()?, [1.0; 8], "a read does not keep it");
        write(&stream, &mut x, 2.0)?;
        clear();
        let over = AtomicBool::new(false);
        let over = &over;
        let values = thread::scope(|scope| {
            let reads = scope.spawn(move || {
                let values = x.to_vec();
                over.store(true, Ordering::Release);
                values
            });
            let asked = || cuda().called().iter().filter(|name| **name == "cuEventQuery").count();
            until("it asks again and again", || asked() > 3);
            assert!(!over.load(Ordering::Acquire));
            cuda().release(held);
            reads.join().expect("no panic")
        })?;
        assert_eq!(values, [2.0; 8]);
        Ok(())
    });
}

#[test]
fn the_host_waits_for_all_uses_before_it_writes() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let stream = device.stream()?;
        let held = handle(&stream)?;
        let mut x = device.from_slice(&[1.0_f32; 8])?;
        cuda().hold(held);
        let copying = stream.download(&x, device.pinned(8)?)?;
        clear();
        thread::scope(|scope| {
            let writes = scope.spawn(|| x.copy_from(&[3.0; 8]));
            let asked = || cuda().called().iter().filter(|name| **name == "cuEventQuery").count();
            until("it asks again and again", || asked() > 3);
            assert!(!cuda().called().contains(&"cuMemcpyHtoDAsync_v2"));
            cuda().release(held);
            writes.join().expect("no panic")
        })?;
        assert_eq!(copying.wait()?.as_slice(), [1.0; 8]);
        assert_eq!(x.to_vec()?, [3.0; 8]);
        Ok(())
    });
}

#[test]
fn a_mark_narrows_what_others_wait_for() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let (first, second) = (device.stream()?, device.stream()?);
        let (a, b) = (handle(&first)?, handle(&second)?);
        for marked in [true, false] {
            let mut x = device.zeros::<f32>(8)?;
            let mut other = device.zeros::<f32>(8)?;
            write(&first, &mut x, 4.0)?;
            let mark = if marked { Some(first.mark()?) } else { None };
            // Later work there, which is blocked.
            cuda().hold(a);
            write(&first, &mut other, 5.0)?;
            clear();
            let copying = second.download(&x, device.pinned(8)?)?;
            let log = cuda().log();
            let waited: Vec<_> = log.iter().filter(|c| c.function == "cuStreamWaitEvent").collect();
            assert_eq!(waited.len(), 1);
            assert_eq!(waited[0].argument("hStream"), b);
            let recorded = log
                .iter()
                .any(|call| call.function == "cuEventRecord" && call.argument("hStream") == a);
            assert_eq!(recorded, !marked, "the mark is there already");
            assert_eq!(copying.is_done()?, marked);
            // The host reads marked work too.
            if marked {
                assert_eq!(x.to_vec()?, [4.0; 8]);
            }
            cuda().release(a);
            assert_eq!(copying.wait()?.as_slice(), [4.0; 8]);
            drop(mark);
        }
        Ok(())
    });
}

#[test]
fn marks_by_hand() {
    on(NEWEST, || {
        let comm = alone()?;
        let device = comm.device();
        let (first, second) = (device.stream()?, device.stream()?);
        let (a, b) = (handle(&first)?, handle(&second)?);
        cuda().hold(a);
        clear();
        let mark = first.mark()?;
        second.wait_for(&mark)?;
        assert_eq!(waits(), [(b, a)]);
        assert!(!mark.is_reached()?);
        // Work enqueued there later is not covered by the mark.
        cuda().release(a);
        cuda().hold(a);
        assert!(mark.is_reached()?);
        comm.wait(&mark)?;
        second.sync()?;
        cuda().release(a);
        comm.finish()
    });
}

#[test]
fn a_launched_closure_has_its_streams_device() {
    on(NEWEST, || {
        let (zero, two) = (Gpu::any(0)?, Gpu::any(2)?);
        let stream = two.stream()?;
        let mut x = two.zeros::<f32>(8)?;
        // Something else is current before.
        zero.zeros::<f32>(8)?;
        assert_eq!(cuda().current(), Some(0));
        let (told, hears) = std::sync::mpsc::channel();
        stream.launch(&mut x, move |mut view, raw| {
            let places = (view.as_mut_ptr().addr() as u64, raw.as_ptr().addr() as u64);
            let _ = told.send((cuda().current(), view.len(), places));
        })?;
        let (current, len, (place, raw)) = hears.try_recv().expect("it ran at the call");
        assert_eq!((current, len, raw), (Some(2), 8, handle(&stream)?));
        let allocated = cuda().log();
        let mut given = allocated.iter().filter(|call| call.function == "cuMemAlloc_v2");
        assert_eq!(given.next().and_then(|call| call.gives), Some(place));
        Ok(())
    });
}

/// Every call runs in the context of its own device, on any thread.
#[test]
fn threads_without_a_context() {
    on(NEWEST, || {
        let device = Gpu::any(1)?;
        let stream = device.stream()?;
        let mut x = device.from_slice(&[1.0_f32; 8])?;
        let mark = stream.mark()?;
        thread::scope(|scope| -> Result<()> {
            scope.spawn(|| mark.is_reached().map(drop)).join().expect("no panic")?;
            let uses = scope.spawn(move || -> Result<Buffer<f32, Gpu>> {
                assert_eq!(cuda().current(), None);
                let mut y = device.zeros::<f32>(8)?;
                stream.launch((&mut x, &mut y), |_, _| ())?;
                stream.sync()?;
                x.copy_from(&y.to_vec()?)?;
                Ok(x)
            });
            let x = uses.join().expect("no panic")?;
            assert_eq!(x.to_vec()?, [0.0; 8]);
            Ok(())
        })
    });
}

/// A kernel of the library's own that repeats earlier ones still checks for other streams.
#[test]
fn a_kernel_waits_for_other_streams() {
    on(NEWEST, || {
        let comm = alone()?;
        let kernels = comm.kernels()?.always(typed_nccl::kernels::Way::OneShot);
        let x = comm.device().from_slice(&[1.0_f32; 64])?;
        let mut y = comm.device().zeros::<f32>(64)?;
        let other = comm.device().stream()?;
        let (own, side) = (handle(comm.stream())?, handle(&other)?);
        kernels.all_reduce(&comm, &x, &mut y, Sum)?;
        clear();
        kernels.all_reduce(&comm, &x, &mut y, Sum)?;
        assert_eq!(waits(), []);
        write(&other, &mut y, 7.0)?;
        assert_eq!(waits(), [(side, own)]);
        kernels.all_reduce(&comm, &x, &mut y, Sum)?;
        assert_eq!(waits(), [(side, own), (own, side)]);
        assert_eq!(y.to_vec()?, [1.0; 64]);
        comm.finish()
    });
}

#[test]
fn a_stream_has_its_priority() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        assert_eq!(device.stream_priorities()?, -5..=0);
        clear();
        let urgent = device.stream_with_priority(-2)?;
        let log = cuda().log();
        let made = log.iter().find(|call| call.function == "cuStreamCreateWithPriority");
        let made = made.expect("it was called");
        assert_eq!((made.argument("flags"), made.argument("priority") as i32), (1, -2));
        // It is used again once it is idle, and for its own priority only.
        let first = handle(&urgent)?;
        drop(urgent);
        let others = [device.stream()?, device.stream_with_priority(-1)?];
        for other in &others {
            assert_ne!(handle(other)?, first);
        }
        let again = device.stream_with_priority(-2)?;
        assert_eq!(handle(&again)?, first);
        let mut x = device.zeros::<f32>(8)?;
        write(&again, &mut x, 3.0)?;
        assert_eq!(x.to_vec()?, [3.0; 8]);
        cuda().fail("cuStreamCreateWithPriority", Code::OUT_OF_MEMORY);
        assert_error!(device.stream_with_priority(-3), CudaFailed, "opening a stream");
        Ok(())
    });
}

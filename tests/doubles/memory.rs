//! Memory, streams and events: reused once nothing uses them, and never freed by a drop.

use std::sync::{Barrier, Mutex};

use fake_cuda::Code;
use nccl_sys::Function::{ncclCommAbort, ncclCommDestroy, ncclMemAlloc, ncclMemFree};
use nccl_sys::ncclResult_t;
use typed_nccl::{AnyDevice, Buffer, Cuda, Error, NcclMem, Result, Stream, Sum};

use crate::common::{address, alone, assert_silent, calls, clear, count, handle, until};
use crate::scenario::{NEWEST, cuda, nccl, on};

type Gpu = Cuda<AnyDevice>;

/// A buffer's address, read by means of a stream that is idle again.
fn place<M>(buffer: &Buffer<f32, Gpu, M>) -> Result<u64> {
    let device = Gpu::any(0)?;
    address(&device.stream()?, buffer)
}

/// How often this driver function was called.
fn called(function: &str) -> usize {
    cuda().called().iter().filter(|name| **name == function).count()
}

#[test]
fn a_buffer_that_is_dropped_in_use_is_not_given_out() {
    on(NEWEST, || {
        let comm = alone()?;
        let device = Gpu::any(0)?;
        let other = device.stream()?;
        for turn in 0..3 {
            // Used on two streams, as a read operand and as a written one.
            let (x, mut y) = (device.from_slice(&[7.0_f32; 500])?, device.from_slice(&[8.0; 500])?);
            let (at_x, at_y) = (place(&x)?, place(&y)?);
            let streams = [handle(comm.stream())?, handle(&other)?];
            streams.iter().for_each(|stream| cuda().hold(*stream));
            comm.all_reduce(&x, &mut y, Sum)?;
            comm.on(&other).all_reduce_in_place(&mut y, Sum)?;
            drop((x, y));

            let first = [device.zeros::<f32>(500)?, device.zeros::<f32>(500)?];
            for buffer in &first {
                assert!(![at_x, at_y].contains(&place(buffer)?), "turn {turn}");
            }
            cuda().release(streams[0]);
            // Written memory is used on the other stream too.
            let second = [device.zeros::<f32>(500)?, device.zeros::<f32>(500)?];
            let given = [place(&second[0])?, place(&second[1])?];
            assert!(given.contains(&at_x) && !given.contains(&at_y), "turn {turn}");
            cuda().release(streams[1]);
            let third = device.zeros::<f32>(500)?;
            assert_eq!(place(&third)?, at_y);
            for buffer in first.iter().chain(&second).chain([&third]) {
                assert_eq!(buffer.to_vec()?, [0.0; 500], "zeroed anew");
            }
        }
        comm.finish()
    });
}

#[test]
fn a_dropped_buffer_waits_for_every_stream_that_used_it() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let streams = [device.stream()?, device.stream()?, device.stream()?];
        for order in [[0, 1, 2], [2, 1, 0]] {
            let x = device.zeros::<f32>(500)?;
            let start = place(&x)?;
            for stream in &streams {
                cuda().hold(handle(stream)?);
                stream.launch(&x, |_, _| ())?;
            }
            drop(x);
            let mut kept = Vec::new();
            for index in order {
                kept.push(device.zeros::<f32>(500)?);
                assert_ne!(place(&kept[kept.len() - 1])?, start);
                cuda().release(handle(&streams[index])?);
            }
            assert_eq!(place(&device.zeros::<f32>(500)?)?, start);
        }
        Ok(())
    });
}

#[test]
fn new_memory_is_zeroed() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        for len in [1, 127, 129, 5000, 700_000] {
            for _ in 0..2 {
                let (mut x, mut y) = (device.zeros::<i32>(len)?, device.nccl_zeros::<i32>(len)?);
                assert!(x.to_vec()?.iter().all(|&x| x == 0), "{len}");
                assert!(y.to_vec()?.iter().all(|&y| y == 0), "{len}");
                x.copy_from(&vec![1; len])?;
                y.copy_from(&vec![1; len])?;
            }
        }
        assert_eq!(device.zeros::<f64>(0)?.to_vec()?, [0.0; 0]);
        Ok(())
    });
}

#[test]
fn a_drop_calls_nothing() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let window = comm.window::<f32>(4)?;
        let device = Gpu::any(0)?;
        let stream = device.stream()?;
        let (fresh, mut used) = (device.zeros::<f32>(9)?, device.zeros::<f32>(9)?);
        let (own, mut busy) = (device.nccl_zeros::<f32>(9)?, device.zeros::<f32>(9)?);
        comm.on(&stream).all_reduce_in_place(&mut used, Sum)?;
        cuda().hold(handle(&stream)?);
        comm.on(&stream).all_reduce_in_place(&mut busy, Sum)?;
        let (mark, old) = (stream.mark()?, comm.stream().mark()?);
        let (pinned, under_way) = (device.pinned::<f32>(9)?, device.pinned::<f32>(9)?);
        let mut target = device.zeros::<f32>(9)?;
        let copying = stream.upload(under_way, &mut target)?;
        let scaled = comm.pre_mul_sum(2.0_f32)?;
        let idle = device.stream()?;
        clear();
        drop((fresh, used, own, busy));
        assert_silent("dropping buffers");
        drop((mark, old));
        assert_silent("dropping marks");
        drop((pinned, copying, target));
        assert_silent("dropping pinned memory");
        drop((window, scaled));
        assert_silent("dropping a window and an operator");
        drop((stream, idle, device));
        assert_silent("dropping streams and a device");
        Ok(())
    });
}

#[test]
fn out_of_memory_frees_what_is_free_and_asks_again() {
    on(NEWEST, || {
        cuda().set_limit(8 << 20);
        let device = Gpu::any(0)?;
        let kept = device.zeros::<u8>(100)?;
        let dropped = device.zeros::<u8>(3 << 20)?;
        drop(dropped);
        clear();
        // Four and six are more than eight.
        let large = device.zeros::<u8>(5 << 20)?;
        let memory: Vec<_> = cuda()
            .log()
            .into_iter()
            .filter(|call| ["cuMemAlloc_v2", "cuMemFree_v2"].contains(&call.function))
            .map(|call| (call.function, call.result))
            .collect();
        let (ok, none) = (Some(Code::SUCCESS), Some(Code::OUT_OF_MEMORY));
        let expected = [("cuMemAlloc_v2", none), ("cuMemFree_v2", ok), ("cuMemAlloc_v2", ok)];
        assert_eq!(memory, expected);

        clear();
        let outcome = device.zeros::<u8>(3 << 20);
        assert_error!(outcome, NoMemory, "4194304 bytes", "cuda:0");
        assert_eq!((called("cuMemAlloc_v2"), called("cuMemFree_v2")), (1, 0), "nothing is free");
        // Memory in use is unchanged, and small allocations still succeed.
        assert_eq!(large.len() + kept.to_vec()?.len(), (5 << 20) + 100);
        device.zeros::<u8>(100)?;
        Ok(())
    });
}

/// The driver's free waits for the device, including blocked work, so it is not called without
/// need.
#[test]
fn out_of_memory_does_not_free_what_is_in_use() {
    on(NEWEST, || {
        cuda().set_limit(8 << 20);
        let comm = alone()?;
        let mut x = comm.device().zeros::<u8>(3 << 20)?;
        let stream = handle(comm.stream())?;
        cuda().hold(stream);
        comm.all_reduce_in_place(&mut x, Sum)?;
        drop(x);
        clear();
        assert_error!(comm.device().zeros::<u8>(5 << 20), NoMemory, "cuda:0");
        assert_eq!(called("cuMemFree_v2"), 0);
        comm.health()?;
        cuda().release(stream);
        comm.device().zeros::<u8>(5 << 20)?;
        assert_eq!(called("cuMemFree_v2"), 1);
        comm.finish()
    });
}

/// Work that waits for this rank may block the device, so returning memory would wait for it.
#[test]
fn out_of_memory_while_the_device_is_busy() {
    on(NEWEST, || {
        cuda().set_limit(8 << 20);
        let comm = alone()?;
        let mut x = comm.device().zeros::<u8>(100)?;
        drop(comm.device().zeros::<u8>(3 << 20)?);
        let stream = handle(comm.stream())?;
        cuda().hold(stream);
        comm.all_reduce_in_place(&mut x, Sum)?;
        let kept = "4194304 bytes of dropped buffers are kept for others of their sizes";
        let error =
            assert_error!(comm.device().zeros::<u8>(5 << 20), NoMemory, "6291456 bytes", kept);
        let Error::NoMemory(none) = &error else { panic!("{error}") };
        assert_eq!((none.kept, none.in_use), (4 << 20, 0));
        drop(x);
        let outcome = comm.device().zeros::<u8>(9 << 20);
        assert_error!(outcome, NoMemory, kept, "work in flight may use 512 bytes");
        assert_eq!(called("cuMemFree_v2"), 0);
        cuda().release(stream);
        comm.device().zeros::<u8>(5 << 20)?;
        comm.finish()
    });
}

#[test]
fn other_failures_of_the_allocator() {
    on(NEWEST, || {
        let device = Gpu::any(2)?;
        cuda().fail("cuMemAlloc_v2", Code::UNKNOWN);
        let outcome = device.zeros::<u8>(100);
        let what = "allocating memory on cuda:2 failed: CUDA_ERROR_UNKNOWN (unknown error)";
        assert_error!(outcome, CudaFailed, what);
        assert_eq!(called("cuMemAlloc_v2"), 1);
        cuda().fail("cuMemHostAlloc", Code::OUT_OF_MEMORY);
        assert_error!(device.pinned::<u8>(100), NoMemory, "4096 bytes");
        cuda().fail("cuMemsetD8Async", Code::LAUNCH_FAILED);
        let what = "zeroing memory on cuda:2 failed: CUDA_ERROR_LAUNCH_FAILED";
        assert_error!(device.zeros::<u8>(100), CudaFailed, what);
        let memory = called("cuMemAlloc_v2");
        device.zeros::<u8>(100)?;
        assert_eq!(called("cuMemAlloc_v2"), memory, "what could not be zeroed is not lost");
        cuda().fail("cuStreamCreate", Code::OUT_OF_MEMORY);
        assert_error!(device.stream(), CudaFailed, "opening a stream on cuda:2", "OUT_OF_MEMORY");
        Ok(())
    });
}

#[test]
fn nccls_memory_is_given_back_to_nccl() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let (x, y) = (device.nccl_zeros::<f32>(9)?, device.zeros::<f32>(9)?);
        let x: Buffer<f32, Gpu, NcclMem> = x;
        let [asked] = &calls(ncclMemAlloc)[..] else { panic!("one call") };
        assert!(asked.int("size") >= 36, "{asked}");
        let start = place(&x)?;
        drop((x, y));
        clear();
        assert_eq!(place(&device.nccl_zeros::<f32>(9)?)?, start, "given out again");
        assert_eq!((count(ncclMemAlloc), count(ncclMemFree)), (0, 0));
        device.trim()?;
        let freed = calls(ncclMemFree);
        assert_eq!(
            freed.iter().map(|call| call.pointer("ptr") as u64).collect::<Vec<_>>(),
            [start]
        );
        assert_eq!(
            (called("cuMemFree_v2"), cuda().live().pieces, nccl().live().allocations),
            (1, 0, 0)
        );

        // It retries if there was something to return, and only then.
        drop(device.zeros::<f32>(9)?);
        nccl().fail(ncclMemAlloc, ncclResult_t::ncclUnhandledCudaError);
        let x = device.nccl_zeros::<f32>(9)?;
        assert_eq!((count(ncclMemAlloc), cuda().live().pieces), (2, 0));
        nccl().fail(ncclMemAlloc, ncclResult_t::ncclUnhandledCudaError);
        let outcome = device.nccl_zeros::<f32>(9);
        assert_error!(
            outcome,
            NcclFailed,
            "ncclMemAlloc of NCCL 2.32.3 gave ncclUnhandledCudaError"
        );
        drop(x);
        Ok(())
    });
}

/// The devices on which NCCL's memory was requested, in order.
static ASKED: Mutex<Vec<Option<u32>>> = Mutex::new(Vec::new());

#[test]
fn nccls_memory_is_of_the_device_that_is_asked() {
    on(NEWEST, || {
        nccl().before(|function| {
            if function == ncclMemAlloc {
                ASKED.lock().expect("no panic").push(cuda().current());
            }
        });
        for ordinal in [2, 0, 3] {
            drop(Gpu::any(ordinal)?.nccl_zeros::<u8>(16)?);
        }
        assert_eq!(*ASKED.lock().expect("no panic"), [Some(2), Some(0), Some(3)]);
        Ok(())
    });
}

#[test]
fn a_second_address_ends_with_its_memory() {
    on(NEWEST, || {
        cuda().set_virtual(2 << 20);
        let device = Gpu::any(0)?;
        let (x, y) = (device.nccl_zeros::<f32>(9)?, device.nccl_zeros::<f32>(9)?);
        let plain = device.zeros::<f32>(9)?;
        assert_eq!(cuda().live().mappings, 2);
        drop((x, plain));
        let again = device.nccl_zeros::<f32>(9)?;
        assert_eq!(cuda().live().mappings, 2, "it goes with the memory");
        drop(again);
        device.trim()?;
        assert_eq!((count(ncclMemFree), cuda().live().mappings), (1, 1));
        // Without a second address a window's transfer could hang: the allocation fails.
        for function in ["cuMemAddressReserve", "cuMemMap", "cuMemSetAccess"] {
            cuda().fail(function, Code::UNKNOWN);
            let outcome = device.nccl_zeros::<f32>(9);
            assert_error!(outcome, CudaFailed, "mapping NCCL's memory again on cuda:0 failed");
            assert_eq!((nccl().live().allocations, cuda().live().mappings), (1, 1), "{function}");
        }
        // The mapping still works.
        cuda().fail("cuMemRelease", Code::UNKNOWN);
        drop(device.nccl_zeros::<f32>(9)?);
        device.trim()?;
        assert_eq!(cuda().live().mappings, 1);
        drop(y);
        device.trim()?;
        assert_eq!((nccl().live().allocations, cuda().live().mappings), (0, 0));
        Ok(())
    });
}

#[test]
fn trim_frees_what_is_free() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let kept = device.zeros::<f32>(10)?;
        let sizes = [1, 1000, 100_000, 1_000_000];
        let dropped = sizes.map(|len| device.zeros::<f32>(len));
        let held = device.stream()?;
        address(&held, dropped[0].as_ref().map_err(Clone::clone)?)?;
        cuda().hold(handle(&held)?);
        drop(dropped);
        assert_eq!(cuda().live().pieces, 5);
        clear();
        // Freeing waits for the device, so the freeing thread has to wait for the held stream.
        std::thread::scope(|scope| {
            let device = device.clone();
            let trims = scope.spawn(move || device.trim());
            until("it frees", || called("cuMemFree_v2") > 0);
            assert_eq!(cuda().live().pieces, 5);
            cuda().release(handle(&held)?);
            trims.join().expect("no panic")
        })?;
        assert_eq!(called("cuMemFree_v2"), 3, "not what a held stream used");
        device.trim()?;
        assert_eq!((called("cuMemFree_v2"), cuda().live().pieces), (4, 1));
        assert_eq!(kept.to_vec()?, [0.0; 10]);
        device.trim()
    });
}

#[test]
fn equal_sizes_share_memory() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let start = |len| place(&device.zeros::<f32>(len)?);
        let small = start(1)?;
        assert_eq!([start(2)?, start(128)?], [small; 2], "512 bytes at least");
        assert_ne!(start(129)?, small);
        assert_eq!(start(129)?, start(256)?);
        assert_eq!(called("cuMemAlloc_v2"), 2);
        let sizes: Vec<_> =
            cuda().log().into_iter().filter(|c| c.function == "cuMemAlloc_v2").collect();
        assert_eq!(sizes.iter().map(|c| c.argument("bytesize")).collect::<Vec<_>>(), [512, 1024]);
        // Memory belongs to a GPU.
        let other = Gpu::any(1)?.zeros::<f32>(1)?;
        assert_ne!(address(&Gpu::any(1)?.stream()?, &other)?, small);
        Ok(())
    });
}

#[test]
fn pinned_memory_whose_copy_is_under_way_is_not_given_out() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let stream = device.stream()?;
        let mut x = device.zeros::<f32>(9)?;
        let mut pinned = device.pinned::<f32>(9)?;
        pinned.as_mut_slice().fill(5.0);
        let start = pinned.as_slice().as_ptr();
        cuda().hold(handle(&stream)?);
        let copying = stream.upload(pinned, &mut x)?;
        assert!(!copying.is_done()?);
        drop(copying);
        let other = device.pinned::<f32>(9)?;
        assert_ne!(other.as_slice().as_ptr(), start);
        cuda().release(handle(&stream)?);
        let again = device.pinned::<f32>(9)?;
        assert_eq!((again.as_slice().as_ptr(), again.as_slice()), (start, [0.0; 9].as_slice()));
        assert_eq!(x.to_vec()?, [5.0; 9], "the copy came first");
        assert_eq!(cuda().live().pinned, 2);
        Ok(())
    });
}

#[test]
fn a_stream_that_is_busy_is_not_opened_again() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let opened = |device: &Gpu| handle(&device.stream()?);
        let first = opened(&device)?;
        assert_eq!(opened(&device)?, first, "idle: as good as new");
        let busy: Stream<Gpu> = device.stream()?;
        cuda().hold(first);
        drop(busy);
        let second = opened(&device)?;
        assert_ne!(second, first);
        cuda().release(first);
        let both = [device.stream()?, device.stream()?];
        let mut handles = [handle(&both[0])?, handle(&both[1])?];
        handles.sort_unstable();
        assert_eq!(handles, [first, second]);
        Ok(())
    });
}

#[test]
fn events_are_used_again() {
    on(NEWEST, || {
        let device = Gpu::any(0)?;
        let stream = device.stream()?;
        let mut x = device.zeros::<f32>(9)?;
        let turn = |x: &mut Buffer<f32, Gpu>| -> Result<()> {
            let mark = stream.mark()?;
            stream.launch(&mut *x, |_, _| ())?;
            x.to_vec()?;
            stream.sync()?;
            drop(mark);
            drop(device.zeros::<f32>(1000)?);
            Ok(())
        };
        for _ in 0..100 {
            turn(&mut x)?;
        }
        // The stream keeps some of its last marks.
        let events = cuda().live().events;
        assert!(events < 50, "{events}");
        for _ in 0..100 {
            turn(&mut x)?;
        }
        assert_eq!(cuda().live().events, events);
        Ok(())
    });
}

/// Another rank may still write to a window's former memory.
#[test]
fn a_windows_memory_stays_until_all_ranks_have_ended() {
    on(NEWEST, || {
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let mut comm = place.init()?;
            let device = comm.device().clone();
            let window = comm.window::<f32>(10)?;
            let start = window.user_ptr().addr() as u64;
            let stream = device.stream()?;
            let given = || address(&stream, &device.nccl_zeros::<f32>(10)?);
            if comm.rank().index() == 0 {
                drop(window);
                comm.abort();
                assert_ne!(given()?, start);
                together.wait();
                together.wait();
                // It returns when the pool checks whether all streams have passed. Allocations are
                // held, so that the same memory is not returned repeatedly.
                let mut held = Vec::new();
                until("it is given out", || {
                    held.extend(device.nccl_zeros::<f32>(10));
                    let last = held.last().map(|last| address(&stream, last));
                    matches!(last, Some(Ok(given)) if given == start)
                });
            } else {
                together.wait();
                comm.abort();
                together.wait();
            }
            Ok::<_, Error>(())
        })
        .map(drop)
    });
}

/// NCCL may refer to it until it has ended every rank of its communicator in this process.
#[test]
fn memory_of_a_rank_that_does_not_end_is_lost() {
    on(NEWEST, || {
        for (before, end) in [ncclCommDestroy, ncclCommAbort].into_iter().enumerate() {
            clear();
            nccl().fail(end, ncclResult_t::ncclInternalError);
            let starts = Cuda::spmd(2, |place| {
                let mut comm = place.init()?;
                let window = comm.window::<f32>(10)?;
                let start = window.user_ptr().addr() as u64;
                drop(window);
                comm.barrier()?;
                match end {
                    ncclCommDestroy => comm.finish()?,
                    _ => drop(comm.abort()),
                }
                Ok::<_, Error>(start)
            })?;
            assert_eq!((count(end), nccl().live().communicators), (2, before + 1));
            for (ordinal, start) in (0..).zip(starts) {
                let device = Gpu::any(ordinal)?;
                let stream = device.stream()?;
                // Allocations are held, so that the same memory is not returned repeatedly.
                let held: Vec<_> = (0..20).map(|_| device.nccl_zeros::<f32>(10)).collect();
                for buffer in held {
                    assert_ne!(address(&stream, &buffer?)?, start);
                }
                device.trim()?;
                let freed = calls(ncclMemFree);
                assert!(freed.iter().all(|call| call.pointer("ptr") as u64 != start));
            }
        }
        Ok(())
    });
}

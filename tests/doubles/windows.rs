//! Windows: their registration, kernels' handles of them, and older releases.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use fake_cuda::Code;
use fake_nccl::Call;
use nccl_sys::Function::{
    self, ncclCommAbort, ncclCommDeregister, ncclCommRegister, ncclCommWindowDeregister,
    ncclCommWindowRegister, ncclGetCftDeviceLeInfo, ncclGetMultimemDeviceLeInfo,
    ncclGetMultimemDevicePointer, ncclGetPeerDeviceLeInfo, ncclMemAlloc, ncclMemFree,
    ncclPutSignal, ncclRedOpDestroy,
};
use nccl_sys::ncclResult_t;
use typed_nccl::{
    AnyDevice, Buffer, CftCounted, CommConfig, Communicator, Cuda, Error, Flagged, GinOnly,
    LocalOnly, Place, Result, Sum, Symmetric, SymmetricStrict, TeamOf, Window, tag,
};

use crate::common::{Wire, address, alone, calls, clear, connect, count, handle, says, until};
use crate::scenario::{NEWEST, cuda, nccl, on, release};

/// Two contexts of three signals.
pub(crate) fn configured<T>(place: Place<Cuda<T>>) -> Result<Communicator<Cuda<T>>> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().contexts(2).signals(3).build();
    Communicator::builder().seat(seat).device(device).config(config).build().connect()
}

/// The values of an argument in the calls of a function.
pub(crate) fn said(calls: &[Call], name: &str) -> Vec<i128> {
    calls.iter().map(|call| call.int(name)).collect()
}

#[test]
fn registration_names_the_memory_and_its_kind() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let mut comm = place.init()?;
            let wire = Wire::of(&comm)?;
            let window: Window<f32, _, Symmetric> = comm.window(1000)?;
            let buffer = comm.device().nccl_zeros::<f32>(10)?;
            let start = address(comm.stream(), &buffer)?;
            let local = comm.register_window_as(buffer, LocalOnly)?;
            let buffer = comm.device().nccl_zeros::<u8>(3 << 20)?;
            let strict = comm.register_window_as(buffer, SymmetricStrict)?;
            let all = wire.calls().into_iter();
            let calls: Vec<_> = all.filter(|c| c.function == ncclCommWindowRegister).collect();
            assert!(calls.iter().all(|call| call.pointer("comm") as u64 == wire.comm));
            assert_eq!(said(&calls, "size"), [4000, 40, 3 << 20]);
            assert_eq!(said(&calls, "winFlags"), [1, 0, 3]);
            let memory: Vec<_> = calls.iter().map(|call| call.pointer("buff")).collect();
            assert_eq!(memory[0], window.user_ptr().addr());
            assert_eq!((memory[1] as u64, memory[1]), (start, local.user_ptr().addr()));
            assert_eq!(memory[2], strict.user_ptr().addr());
            comm.finish()
        })
        .map(drop)
    });
}

/// One allocation of NCCL's; the memory goes back with the last part, and work on it.
#[test]
fn parts_of_an_allocation_are_registered_where_they_begin() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let device = comm.device().clone();
        device.trim()?;
        clear();
        let memory = device.nccl_zeros::<f32>(3000)?;
        let start = address(comm.stream(), &memory)? as usize;
        let (first, rest) = memory.split_at(1024)?;
        let (second, third) = rest.split_at(1000)?;
        let first = comm.register_window(first)?;
        let second = comm.register_window(second)?;
        assert_eq!((count(ncclMemAlloc), second.user_ptr().addr()), (1, start + 4096));
        let registered = calls(ncclCommWindowRegister);
        let buffs: Vec<_> = registered.iter().map(|call| call.pointer("buff")).collect();
        assert_eq!(
            (buffs, said(&registered, "size")),
            (vec![start, start + 4096], vec![4096, 4000])
        );
        // NCCL would refuse it on one rank, and the others would wait.
        let failed = comm.try_register_window_as(third, Symmetric).expect_err("it is not aligned");
        assert_error!(Err::<(), _>(failed.error), BadWindow, "8096 bytes into its allocation");
        assert_eq!(count(ncclCommWindowRegister), 2);
        drop((comm.close(first)?, failed.value));
        device.trim()?;
        assert_eq!(count(ncclMemFree), 0);
        let mut second = comm.close(second)?;
        let own = handle(comm.stream())?;
        cuda().hold(own);
        comm.all_reduce_in_place(&mut second, Sum)?;
        drop(second);
        device.trim()?;
        assert_eq!(count(ncclMemFree), 0, "work may still use it");
        cuda().release(own);
        comm.sync(comm.stream())?;
        until("the memory is freed", || device.trim().is_ok() && count(ncclMemFree) == 1);
        comm.finish()
    });
}

/// An owner that says when it is dropped.
struct Theirs(&'static AtomicBool);

impl Drop for Theirs {
    fn drop(&mut self) {
        self.0.store(true, Relaxed);
    }
}

/// Part of memory that another library got from NCCL's allocator.
#[test]
fn another_librarys_nccl_memory_backs_a_window() {
    static IS_DROPPED: AtomicBool = AtomicBool::new(false);
    on(NEWEST, || {
        let mut comm = alone()?;
        let device = comm.device().clone();
        cuda().set_virtual(2 << 20);
        let (api, mut start) = (nccl().api().map_err(Error::other)?, std::ptr::null_mut());
        let alloc = api.ncclMemAlloc().expect("the newest has it");
        // SAFETY: the address is valid for the write.
        assert_eq!(unsafe { alloc(&raw mut start, 2 << 20) }, ncclResult_t::ncclSuccess);
        let part = start.cast::<f32>().wrapping_add(1024);
        // SAFETY: it is part of the memory above, which nothing else uses and nothing frees.
        let buffer = unsafe { Buffer::from_raw_nccl(&device, part, 100, Theirs(&IS_DROPPED)) }?;
        clear();
        let window = comm.register_window(buffer)?;
        let call = calls(ncclCommWindowRegister).remove(0);
        assert_eq!((call.pointer("buff"), call.int("size")), (part.addr(), 400));
        assert_eq!(window.user_ptr(), part);
        let mut buffer = comm.close(window)?;
        comm.all_reduce_in_place(&mut buffer, Sum)?;
        comm.sync(comm.stream())?;
        assert!(!IS_DROPPED.load(Relaxed));
        drop(buffer);
        comm.finish()?;
        until("the owner is dropped", || {
            let _ = device.trim();
            IS_DROPPED.load(Relaxed)
        });
        // Memory of `cudaMalloc` and no memory are refused, and the owner comes back.
        let plain = device.zeros::<f32>(8)?;
        let at = address(&device.stream()?, &plain)? as usize;
        let at = std::ptr::with_exposed_provenance_mut::<f32>(at);
        // SAFETY: nothing else uses the buffer.
        let refused = unsafe { Buffer::from_raw_nccl(&device, at, 8, 7) };
        let failed = refused.expect_err("plain memory");
        assert_eq!(failed.value, 7);
        assert_error!(Err::<(), _>(failed.error), NotAdoptable, "`ncclMemAlloc`", "from_raw");
        // SAFETY: there is nothing.
        let refused = unsafe { Buffer::from_raw_nccl(&device, at, 0, ()) };
        assert_error!(refused.map_err(Error::from), NotAdoptable, "no elements");
        Ok(())
    });
}

#[test]
fn flags_arrive_in_any_combination() {
    on(NEWEST, || {
        let mut comm = alone()?;
        clear();
        let _strict = {
            let buffer = comm.device().nccl_zeros::<u8>(8)?;
            comm.register_window_as(buffer, Flagged::<2>)?
        };
        let buffer = comm.device().nccl_zeros::<u8>(8)?;
        let _network = comm.register_window_as(buffer, Flagged::<5>)?;
        assert_eq!(said(&calls(ncclCommWindowRegister), "winFlags"), [2, 5]);
        comm.finish()
    });
}

#[test]
fn all_resources_are_closed_and_the_communicator_stays() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let mut comm = place.init()?;
            let (window, _other) = (comm.window::<f32>(8)?, comm.window::<f32>(8)?);
            let buffer = comm.device().nccl_zeros::<f32>(8)?;
            let _registered = comm.register_buffer(&buffer)?;
            let scale = comm.pre_mul_sum(2.0_f32)?;
            let wire = Wire::of(&comm)?;
            comm.close_all()?;
            let functions: Vec<_> = wire.calls().iter().map(|call| call.function).collect();
            let ended = [
                ncclCommWindowDeregister,
                ncclCommWindowDeregister,
                ncclRedOpDestroy,
                ncclCommDeregister,
            ];
            assert_eq!(functions, ended);
            assert!(!window.is_valid() && !scale.is_valid());
            let mut x = comm.device().zeros::<f32>(4)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            comm.finish()
        })
        .map(drop)
    });
}

#[test]
fn closing_deregisters_on_every_rank() {
    on(NEWEST, || {
        Cuda::spmd(3, |place| {
            let mut comm = place.init()?;
            let (first, second) = (comm.window::<f32>(8)?, comm.window::<f32>(8)?);
            let start = second.user_ptr().addr() as u64;
            let wire = Wire::of(&comm)?;
            let mut buffer = comm.close(second)?;
            let deregistered: Vec<_> = wire.calls();
            let functions: Vec<_> = deregistered.iter().map(|call| call.function).collect();
            assert_eq!(functions, [ncclCommWindowDeregister]);
            assert_eq!(deregistered[0].pointer("comm") as u64, wire.comm);
            // The memory stays the same.
            assert_eq!(address(comm.stream(), &buffer)?, start);
            comm.all_reduce_in_place(&mut buffer, Sum)?;
            comm.barrier()?;
            drop(first);
            assert_eq!(nccl().live().windows, 3, "kept until the communicator ends");
            comm.barrier()?;
            comm.finish()
        })?;
        assert_eq!((count(ncclCommWindowDeregister), nccl().live().windows), (3, 0));
        Ok(())
    });
}

#[test]
fn without_windows() {
    on(NEWEST, || {
        nccl().set_windows(false);
        Cuda::spmd(2, |place| {
            let mut comm = place.init()?;
            let needs = "a window needs GPUs that reach each other's memory, or a network";
            let found = "NCCL registered none on this communicator";
            let outcome = comm.window::<f32>(8);
            assert_error!(outcome, Unsupported, needs, found);
            let mut x = comm.device().zeros::<f32>(8)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            comm.finish()
        })
        .map(drop)
    });
}

/// An NCCL call fails on one of two ranks that make a window: the other does not wait for it.
pub(crate) fn fails_on_one_rank(function: Function, failure: ncclResult_t) -> Result<()> {
    clear();
    nccl().fail(function, failure);
    let failed = Cuda::spmd(2, |place| {
        let mut comm = connect(place, 10_000)?;
        let error = comm.window::<f32>(8).expect_err("one of the two");
        let failed = matches!(error, Error::NcclFailed(_));
        match failed {
            true => says(&error, &[function.name(), failure.name().expect("declared")]),
            false => assert!(matches!(error, Error::PeerFailed(_)), "{error}"),
        }
        assert!(comm.health().is_err());
        Ok::<_, Error>(failed)
    })?;
    assert_eq!(failed.iter().filter(|failed| **failed).count(), 1);
    assert_eq!((count(ncclCommAbort), nccl().live().communicators), (2, 0));
    Ok(())
}

#[test]
fn a_registration_that_fails() {
    on(NEWEST, || fails_on_one_rank(ncclCommWindowRegister, ncclResult_t::ncclSystemError));
}

#[test]
fn kinds_that_a_release_does_not_have() {
    on(release("2.28.9"), || {
        let mut comm = alone()?;
        let buffer = comm.device().nccl_zeros::<f32>(8)?;
        let outcome = comm.register_window_as(buffer, SymmetricStrict);
        assert_error!(outcome, Unsupported, "a strictly ordered window needs NCCL 2.29.7");
        let buffer = comm.device().nccl_zeros::<f32>(8)?;
        let outcome = comm.register_window_as(buffer, GinOnly);
        assert_error!(outcome, Unsupported, "a window of this kind needs NCCL 2.32.3; 2.28.9");
        assert_eq!(count(ncclCommWindowRegister), 0);
        comm.finish()
    });
}

/// Handles for kernels.
#[test]
fn kernels_are_given_handles() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let buffer = |comm: &Communicator<Cuda<AnyDevice>>| comm.device().nccl_zeros::<f32>(64);
        let gin = comm.register_window_as(buffer(&comm)?, GinOnly)?;
        let counted = comm.register_window_as(buffer(&comm)?, CftCounted);
        assert_error!(counted, Unsupported, "a `CftCounted` window needs hardware", "`Symmetric`");
        assert_eq!(count(ncclCommWindowRegister), 1);
        nccl().set_counted(true);
        let counted = comm.register_window_as(buffer(&comm)?, CftCounted)?;
        let plain = comm.window::<f32>(64)?;
        assert_eq!(said(&calls(ncclCommWindowRegister), "winFlags"), [4, 8, 1]);
        let handle = |found: Result<Option<NonNull<c_void>>>| {
            Ok::<_, Error>(found?.expect("NCCL has one").addr().get())
        };
        let handles = [
            handle(comm.window_handle(&gin))?,
            handle(comm.window_handle(&counted))?,
            handle(comm.window_handle(&plain))?,
        ];

        // The double has no endpoints.
        assert_eq!(comm.endpoint_at(counted.at(3), 0)?, None);
        let team = comm.team(TeamOf::Counted)?.expect("there is one");
        assert_eq!((team.rank, team.size, team.first), (0, 1, 0));
        assert_eq!(comm.endpoint_in(counted.at(4), team, 0)?, None);
        assert_eq!(comm.multicast_endpoint(counted.at(5))?, None);
        let [peer] = &calls(ncclGetPeerDeviceLeInfo)[..] else { panic!("one call") };
        assert_eq!((peer.pointer("window"), peer.int("offset")), (handles[1], 12));
        let [member] = &calls(ncclGetCftDeviceLeInfo)[..] else { panic!("one call") };
        assert_eq!((member.int("offset"), member.int("peerCft")), (16, 0));
        let [all] = &calls(ncclGetMultimemDeviceLeInfo)[..] else { panic!("one call") };
        assert_eq!(all.int("offset"), 20);
        let outcome = comm.endpoint_at(counted.at(65), 0);
        assert_error!(outcome, BadRange, "the range 65..65 reaches past a buffer of 64");
        assert_error!(comm.endpoint_at(counted.at(0), 1), NoSuchRank, "endpoint_at");
        assert_error!(comm.endpoint_in(counted.at(0), team, 1), BadRange, "1..2");
        for of in [TeamOf::Rail, TeamOf::CountedLsa, TeamOf::CountedMulticast] {
            assert!(comm.team(of)?.is_some_and(|team| team.size == 1));
        }
        // Nor multicast.
        assert_eq!(comm.multimem_ptr_in(&plain, NonNull::dangling())?, None);
        assert_eq!(count(ncclGetMultimemDevicePointer), 1);

        // A communicator's handles are its own.
        let theirs = alone()?;
        assert_error!(theirs.window_handle(&gin), WrongCommunicator, "a window of World#");
        theirs.finish()?;
        clear();
        comm.close(plain)?;
        comm.close(counted)?;
        comm.close(gin)?;
        let closed: Vec<_> =
            calls(ncclCommWindowDeregister).iter().map(|call| call.pointer("win")).collect();
        assert_eq!(closed, [handles[2], handles[1], handles[0]]);
        comm.finish()
    });
    on(release("2.30.7"), || {
        let mut comm = alone()?;
        let window = comm.window::<f32>(64)?;
        assert!(comm.window_handle(&window)?.is_some());
        assert_eq!(comm.team(TeamOf::Counted)?, None);
        assert!(comm.team(TeamOf::Rail)?.is_some());
        let needs = "an endpoint of a window (ncclGetPeerDeviceLeInfo) needs NCCL 2.";
        assert_error!(comm.endpoint_at(window.at(0), 0), Unsupported, needs);
        comm.health()?;
        comm.finish()
    });
}

tag!(Also);

/// Each communicator has its own registration, and keeps the memory for it.
#[test]
fn one_memory_in_windows_of_two_communicators() {
    on(NEWEST, || {
        nccl().set_rma(true);
        let mut comm = alone()?;
        let mut other = comm.split::<Also>(0, 0)?;
        let window = comm.window::<f64>(100)?;
        let shared = window.also_in(&mut other)?;
        let registered = calls(ncclCommWindowRegister);
        let [first, second] = &registered[..] else { panic!("{registered:?}") };
        assert_eq!(first.pointer("buff"), second.pointer("buff"));
        assert_ne!(first.pointer("comm"), second.pointer("comm"));
        let start = window.user_ptr().addr();
        clear();
        comm.put_signal(window.slice(0..10), 0, window.at(10))?;
        other.put_signal(shared.of(&window)?.slice(20..30), 0, shared.at(30))?;
        let puts = calls(ncclPutSignal);
        let at = |put: &Call| (put.pointer("localbuff") - start, put.int("peerWinOffset"));
        assert_eq!((at(&puts[0]), at(&puts[1])), ((0, 80), (160, 240)));
        let [theirs, ours] = [&puts[1], &puts[0]].map(|put| put.pointer("peerWin"));
        assert_ne!(ours, theirs);
        comm.wait_signal(0)?;
        other.wait_signal(0)?;

        // The memory of the closed window stays in the other's.
        drop(comm.close(window)?);
        let [closed] = &calls(ncclCommWindowDeregister)[..] else { panic!("one call") };
        assert_eq!(closed.pointer("win"), ours);
        let given = |comm: &Communicator<Cuda<AnyDevice>>| {
            let buffer = comm.device().nccl_zeros::<f64>(100)?;
            address(comm.stream(), &buffer)
        };
        assert_ne!(given(&comm)? as usize, start, "it is in a window still");
        other.close_shared(shared)?;
        assert_eq!(calls(ncclCommWindowDeregister)[1].pointer("win"), theirs);
        other.finish()?;
        comm.finish()?;
        assert_eq!(nccl().live().windows, 0);
        Ok(())
    });
}

#[test]
fn releases_without_windows() {
    on(release("2.26.5"), || {
        let mut comm = alone()?;
        let outcome = comm.window::<f32>(8);
        assert_error!(outcome, Unsupported, "a window (ncclCommWindowRegister) needs NCCL 2.27.");
        comm.health()?;
        comm.finish()
    });
}

#[test]
fn registered_buffers() {
    on(NEWEST, || {
        let mut comm = alone()?;
        let x = comm.device().nccl_zeros::<i32>(50)?;
        let start = address(comm.stream(), &x)?;
        let registered = comm.register_buffer(&x)?;
        let calls = calls(ncclCommRegister);
        let [call] = calls.as_slice() else { panic!("{calls:?}") };
        assert_eq!((call.pointer("buff") as u64, call.int("size")), (start, 200));
        // The memory stays until it is deregistered.
        drop(x);
        let given = |comm: &Communicator<Cuda<AnyDevice>>| {
            let y = comm.device().nccl_zeros::<i32>(50)?;
            address(comm.stream(), &y)
        };
        assert_ne!(given(&comm)?, start);
        let handle = registered.handle().expect("NCCL keeps one");
        comm.deregister_buffer(registered)?;
        let calls = crate::common::calls(ncclCommDeregister);
        assert_eq!(calls.iter().map(|c| c.pointer("handle") as u64).collect::<Vec<_>>(), [handle]);

        assert_eq!((count(ncclCommRegister), count(ncclCommDeregister)), (1, 1));
        comm.finish()
    });
}

/// A recorded operation is not called, so the ranks are out of step.
#[test]
fn a_failure_before_a_call_of_nccls_is_the_end() {
    on(NEWEST, || {
        nccl().set_rma(true);
        let together = Barrier::new(2);
        Cuda::spmd(2, |place| {
            let mut comm = connect(place, 20_000)?;
            let window = comm.window::<f64>(4)?;
            let peer = comm.ring(1);
            comm.put_signal(window.slice(0..2), peer, window.at(2))?;
            comm.wait_signal(peer)?;
            comm.sync(comm.stream())?;
            together.wait();
            if comm.rank().index() == 0 {
                let other = comm.device().stream()?;
                // An event orders one stream's one-sided operations after another's.
                cuda().fail("cuEventRecord", Code::UNKNOWN);
                let failed = comm.on(&other).signal(peer);
                assert_error!(failed, CudaFailed, "recording an event on cuda:0");
                assert_error!(comm.health(), CudaFailed, "recording an event");
                assert_error!(comm.signal(peer), CudaFailed, "recording an event");
                return Ok(());
            }
            until("rank 0 tells", || comm.health().is_err());
            says(&comm.health().expect_err("told"), &["rank 0 left", "recording an event"]);
            Ok::<_, Error>(())
        })
        .map(drop)
    });
}

//! Device communicators: NCCL's requirements by release, and what is refused before NCCL is called.

use std::cell::RefCell;
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use fake_nccl::Call;
use nccl_sys::Function::{
    self, ncclCommAbort, ncclCommDestroy, ncclCommGetAsyncError, ncclCommRevoke, ncclDevCommCreate,
    ncclDevCommDestroy, ncclLLA2ACreateRequirement, ncclLsaBarrierCreateRequirement,
};
use nccl_sys::{DevCommShape, Layout, ncclDevCommRequirements_t, ncclResult_t};
use typed_nccl::{
    AllToAll, AnyDevice, Communicator, Counted, Cuda, DevComm, DeviceApi, Error, Gin, GinBarriers,
    GinType, LsaBarriers, Multimem, NcclVersion, Requirements, Result, Stream, TeamOf,
};

use crate::common::{alone, assert_silent, calls, clear, count, handle, until};
use crate::scenario::{NEWEST, cuda, nccl, on, release, version};

type Gpu = Cuda<AnyDevice>;
type Comm = Communicator<Gpu>;

fn with_api() -> Result<(Comm, DeviceApi<Cuda<AnyDevice>>)> {
    nccl().set_device_api(true);
    let comm = alone()?;
    let api = comm.device_api()?;
    Ok((comm, api))
}

/// A field of the requirements of a call.
fn field(call: &Call, name: &str) -> i32 {
    let field = ncclDevCommRequirements_t::field(name).expect("it is a field");
    let bytes = call.bytes("reqs");
    let bytes = &bytes[field.offset..field.offset + field.size];
    match *bytes {
        [one] => one.into(),
        _ => i32::from_ne_bytes(bytes.try_into().expect("four bytes")),
    }
}

#[test]
fn requirements_are_nccls_fields() {
    on(NEWEST, || {
        let (mut comm, api) = with_api()?;
        let gin = Gin::every_rank()
            .contexts(5)
            .signals(8)
            .counters(2)
            .barriers(3)
            .rail_barriers(4)
            .world_barriers(6)
            .exclusive_contexts()
            .queue_depth(64)
            .traffic_class(7)
            .without_strong_signals()
            .without_address_signals()
            .over(GinType::Proxy);
        let all = Requirements::new().lsa_barriers(16).lsa_multimem().all_to_all(9, 10).gin(gin);
        let dev: DevComm<Gpu> = comm.dev_comm(&api, &all)?;
        let [call] = &calls(ncclDevCommCreate)[..] else { panic!("one call") };
        for (name, value) in [
            ("version", 23203),
            ("lsaBarrierCount", 16),
            ("lsaMultimem", 1),
            ("lsaLLA2ABlockCount", 9),
            ("lsaLLA2ASlotCount", 10),
            ("ginForceEnable", 0),
            ("ginConnectionType", 1),
            ("ginContextCount", 5),
            ("ginSignalCount", 8),
            ("ginCounterCount", 2),
            ("barrierCount", 3),
            ("railGinBarrierCount", 4),
            ("worldGinBarrierCount", 6),
            ("ginExclusiveContexts", 1),
            ("ginQueueDepth", 64),
            ("ginTrafficClass", 7),
            ("ginStrongSignalsRequired", 0),
            ("ginVaSignalsRequired", 0),
            ("ginType", 2),
            ("useRuntimeVersion", 0),
            ("cftCaps", 0),
        ] {
            assert_eq!(field(call, name), value, "{name}");
        }
        assert_eq!((dev.rank(), dev.size(), dev.lsa_size()), (comm.rank(), 1, 1));
        // NCCL's number, not the requested one.
        assert_eq!(dev.gin_contexts(), Some(3));
        assert_eq!((dev.size_in_bytes(), dev.bytes()?.len()), (248, 248));
        let bytes = dev.bytes()?;
        let number =
            |at: usize| i32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        // The layout's version, this rank and the number of ranks, as NCCL wrote them.
        assert_eq!([4, 8, 12].map(number), [23203, 0, 1]);
        assert_eq!(dev.layout(), Some(NcclVersion::new(2, 32, 3)));
        assert_eq!(dev.multimem()?.base.addr().get(), 1 << 40);
        assert_eq!((dev.lsa_barrier(15)?.index(), dev.world_barrier(5)?.index()), (15, 5));
        assert_eq!((dev.signal(7)?, dev.counter(1)?), (7, 1));
        let mend = "Requirements::lsa_barriers(17)";
        assert_error!(dev.lsa_barrier(16), NotRequired, "LSA barrier 16", "it has 16", mend);
        assert_error!(dev.rail_barrier(4), NotRequired, "rail barrier 4", "it has 4");
        assert_error!(dev.barrier(3), NotRequired, "Gin::barriers(4)");
        assert_error!(dev.signal(8), NotRequired, "signal 8", "Gin::signals(9)");
        assert_error!(dev.range(0), NotRequired, "it has none", "Gin::range");
        comm.close_dev_comm(dev)?;
        assert_eq!(count(ncclDevCommDestroy), 1);
        comm.finish()
    });
}

#[test]
fn each_release_has_its_layout() {
    for text in ["2.29.2", "2.29.7", "2.30.3", "2.30.7", "2.31.2", "2.32.3"] {
        on(release(text), || {
            let (mut comm, api) = with_api()?;
            let needs = Requirements::new().lsa_barriers(2).lsa_multimem();
            let dev = comm.dev_comm(&api, &needs)?;
            let [call] = &calls(ncclDevCommCreate)[..] else { panic!("one call") };
            let loaded = version(&nccl_version(&dev));
            assert_eq!(field(call, "version"), loaded.code().cast_signed());
            let size = &call.bytes("reqs")[offset_of!(ncclDevCommRequirements_t, size)..][..8];
            let size = usize::from_ne_bytes(size.try_into().expect("eight bytes"));
            assert_eq!(size, ncclDevCommRequirements_t::end_in(loaded));
            let shape = DevCommShape::of(loaded).expect("it has them");
            assert_eq!(dev.size_in_bytes(), shape.size);
            assert_eq!(dev.gin_contexts(), Some(3));
            assert_eq!(dev.multimem()?.base.addr().get(), 1 << 40);
            comm.close_dev_comm(dev)?;
            comm.finish()
        });
    }
}

fn nccl_version(dev: &DevComm<Gpu>) -> String {
    dev.layout().expect("NCCL has one").to_string()
}

#[test]
fn a_newer_library_writes_its_own_layout() {
    on(release("2.33.1"), || {
        let (mut comm, api) = with_api()?;
        let dev = comm.dev_comm(&api, &Requirements::new().lsa_barriers(2))?;
        let [call] = &calls(ncclDevCommCreate)[..] else { panic!("one call") };
        assert_eq!((field(call, "version"), field(call, "useRuntimeVersion")), (23203, 1));
        // The double's own size; its contents are unknown.
        assert_eq!((dev.size_in_bytes(), dev.gin_contexts()), (4096, None));
        assert_eq!(dev.layout(), Some(NcclVersion::new(2, 33, 1)));
        comm.close_dev_comm(dev)?;
        comm.finish()
    });
}

#[test]
fn older_releases_and_other_machines_have_none() {
    on(release("2.28.9"), || {
        let comm = alone()?;
        assert_error!(comm.device_api(), Unsupported, "NCCL 2.29.2", "2.28.9");
        comm.finish()
    });
    on(NEWEST, || {
        let comm = alone()?;
        assert_error!(comm.device_api(), Unsupported, "device_api` is false", "NCCL_CUMEM_ENABLE");
        assert_eq!(count(ncclDevCommCreate), 0);
        comm.finish()
    });
}

#[test]
fn what_a_release_has_not_is_refused_before_it_is_called() {
    on(release("2.29.2"), || {
        let (mut comm, api) = with_api()?;
        let needs = Requirements::new().gin(Gin::every_rank().signals(1));
        assert_error!(comm.dev_comm(&api, &needs), Unsupported, "Gin::every_rank", "NCCL 2.29.7");
        comm.dev_comm(&api, &Requirements::new())?;
        comm.finish()
    });
    on(release("2.30.7"), || {
        let (mut comm, api) = with_api()?;
        let needs = Requirements::new().gin(Gin::every_nth(2));
        assert_error!(comm.dev_comm(&api, &needs), Unsupported, "Gin::every_nth", "NCCL 2.31.2");
        let needs = Requirements::new().gin(Gin::every_rank().range(4, 4));
        assert_error!(comm.dev_comm(&api, &needs), Unsupported, "Gin::range", "NCCL 2.31.2");
        let needs = Requirements::new().counted(Counted::OneRank, 1);
        assert_error!(comm.dev_comm(&api, &needs), Unsupported, "cftCaps", "NCCL 2.31.2");
        let needs = Requirements::new().gin(Gin::every_rank().world_barriers(1));
        comm.dev_comm(&api, &needs)?;
        assert_eq!(count(ncclDevCommCreate), 1);
        comm.finish()
    });
}

#[test]
fn what_the_machine_has_not_is_refused_before_nccl_is_called() {
    on(NEWEST, || {
        let (mut comm, api) = with_api()?;
        clear();
        let new = Requirements::new;
        for (needs, words) in [
            (new().counted(Counted::Both, 0), "`Requirements::counted` needs counted transfers"),
            (new().gin(Gin::every_nth(3)), "`Gin::every_nth` needs a multiple of 2; it is 3"),
            (new().gin(Gin::every_nth(0)), "it is 0"),
            (new().gin(Gin::same_rail().over(GinType::Gdaki)), "not Gdaki"),
            (new().buffer(64, 3), "a power of 2; it is 3"),
            (new().lsa_barriers(u32::MAX), "a number that a C `int` has"),
        ] {
            assert_error!(comm.dev_comm(&api, &needs), Unsupported, words);
        }
        assert_silent("a refusal");
        let theirs = alone()?;
        let other = theirs.device_api()?;
        let words = "proof of the device API";
        assert_error!(comm.dev_comm(&other, &new()), WrongCommunicator, words);
        theirs.finish()?;
        // The communicator still works.
        let dev = comm.dev_comm(&api, &new())?;
        comm.close_dev_comm(dev)?;
        comm.finish()
    });
}

/// A communicator whose kernels reach others over the network in every way, with counted transfers.
fn with_all() -> Result<(Comm, DeviceApi<Cuda<AnyDevice>>)> {
    nccl().set_device_api(true);
    nccl().set_gin(3, 3, 3);
    nccl().set_mapped(true);
    let comm = alone()?;
    let api = comm.device_api()?;
    Ok((comm, api))
}

/// The fields of the requirements that this sets.
fn asked(needs: &Requirements, fields: &[&str]) -> Result<Vec<i32>> {
    let (mut comm, api) = with_all()?;
    clear();
    let dev = comm.dev_comm(&api, needs)?;
    let [call] = &calls(ncclDevCommCreate)[..] else { panic!("one call") };
    let found = fields.iter().map(|name| field(call, name)).collect();
    comm.close_dev_comm(dev)?;
    comm.finish()?;
    Ok(found)
}

#[test]
fn counted_transfers_are_nccls_numbers() {
    on(NEWEST, || {
        let fields = ["cftCaps", "cftBarrierCount"];
        assert_eq!(asked(&Requirements::new(), &fields)?, [0, 0]);
        for (counted, number) in
            [(Counted::OneRank, 1), (Counted::ByMulticast, 2), (Counted::Both, 3)]
        {
            assert_eq!(asked(&Requirements::new().counted(counted, 5), &fields)?, [number, 5]);
        }
        Ok(())
    });
}

#[test]
fn connections_over_the_network_are_nccls_numbers() {
    on(NEWEST, || {
        let fields = ["ginConnectionType", "ginCustomStride", "ginType"];
        let none = asked(&Requirements::new(), &fields[..1])?;
        let every = asked(&Requirements::new().gin(Gin::every_rank()), &fields)?;
        let rail = asked(&Requirements::new().gin(Gin::same_rail()), &fields)?;
        let nth = Gin::every_nth(6).over(GinType::Gdaki);
        let nth = asked(&Requirements::new().gin(nth), &fields)?;
        assert_eq!((none[0], every[0], rail[0]), (0, 1, 2));
        assert_eq!(nth, [3, 6, 3]);
        Ok(())
    });
}

#[test]
fn lists_have_handles() {
    on(NEWEST, || {
        let (mut comm, api) = with_api()?;
        let team = comm.lsa_team()?;
        let rail = comm.team(TeamOf::Rail)?.expect("there is one");
        let needs = Requirements::new()
            .lsa_barriers_of(team, 4)
            .multimem_of(team)
            .all_to_all_of(2, 32, 8)
            .buffer(4096, 128)
            .gin(Gin::every_rank().range(3, 2).barriers_of(rail, 2));
        let dev = comm.dev_comm(&api, &needs)?;
        let barriers: LsaBarriers = dev.lsa_barriers_of(team)?;
        assert_eq!((barriers.buffer, barriers.count), (16, 4));
        let exchange: AllToAll = dev.all_to_all_of(0)?;
        assert_eq!((exchange.buffer, exchange.slots), (32, 32));
        assert_eq!(dev.buffer(0)?, 48);
        let range = dev.range(0)?;
        assert_eq!((range.signal, range.counter), (64, 64));
        let over_network: GinBarriers = dev.gin_barriers_of(rail)?;
        assert_eq!(over_network.signal, 80);
        let multimem: Multimem = dev.multimem_of(team)?;
        assert_eq!(multimem.base.addr().get(), 1 << 21);
        assert_error!(dev.buffer(1), NotRequired, "Requirements::buffer");
        assert_error!(dev.multimem(), NotRequired, "Requirements::lsa_multimem()");
        assert_eq!(calls(ncclLsaBarrierCreateRequirement)[0].int("nBarriers"), 4);
        let gin = calls(Function::ncclGinBarrierCreateRequirement).remove(0);
        assert_eq!(gin.int("nBarriers"), 2);
        let slots = calls(Function::ncclLLA2ACalcSlots).remove(0);
        assert_eq!((slots.int("maxElts"), slots.int("maxEltSize")), (32, 8));
        let exchange = calls(ncclLLA2ACreateRequirement).remove(0);
        assert_eq!((exchange.int("nBlocks"), exchange.int("nSlots")), (2, 32));
        comm.close_dev_comm(dev)?;
        comm.finish()
    });
}

#[test]
fn ranks_that_ask_for_what_differs_are_told() {
    on(NEWEST, || {
        nccl().set_device_api(true);
        Cuda::spmd(3, |place| {
            let mut comm = place.init()?;
            let api = comm.device_api()?;
            let many = 2 + u32::from(comm.rank().index() == 2);
            let needs = Requirements::new().lsa_barriers(many);
            let outcome = comm.dev_comm(&api, &needs);
            let parts =
                ["ranks 0 and 1", "lsaBarrierCount 2", "lsaBarrierCount 3", "none was made"];
            assert_error!(outcome, DevCommsDiffer, parts[0], parts[1], parts[2], parts[3]);
            // Each rank gets its own refusal, and the others an error that names it.
            let align = if comm.rank().index() == 0 { 3 } else { 4 };
            let outcome = comm.dev_comm(&api, &Requirements::new().buffer(64, align));
            match comm.rank().index() {
                0 => assert_error!(outcome, Unsupported, "a power of 2"),
                _ => assert_error!(outcome, DevCommsDiffer, "refused", "a power of 2"),
            };
            assert_eq!(count(ncclDevCommCreate), 0);
            let (one, two) =
                (comm.dev_comm(&api, &needs_of(1))?, comm.dev_comm(&api, &needs_of(2))?);
            // They must end in the same order.
            let (first, second) = if comm.rank().index() == 1 { (one, two) } else { (two, one) };
            let outcome = comm.try_close_dev_comm(first);
            let Err(failed) = outcome else { panic!("the ranks close different ones") };
            assert!(failed.error.to_string().contains("none was closed"), "{}", failed.error);
            let (one, two) = if comm.rank().index() == 1 {
                (failed.value, second)
            } else {
                (second, failed.value)
            };
            comm.close_dev_comm(one)?;
            comm.close_dev_comm(two)?;
            comm.finish()
        })
        .map(drop)
    });
}

fn needs_of(barriers: u32) -> Requirements {
    Requirements::new().lsa_barriers(barriers)
}

#[test]
fn one_that_is_dropped_ends_with_its_communicator() {
    on(NEWEST, || {
        let (mut comm, api) = with_api()?;
        drop(comm.dev_comm(&api, &needs_of(1))?);
        let kept = comm.dev_comm(&api, &needs_of(2))?;
        assert_eq!(count(ncclDevCommDestroy), 0);
        let stream = comm.device().stream()?;
        stream.launch((&kept,), |(dev,), _| assert_eq!(dev.bytes().len(), 248))?;
        clear();
        comm.finish()?;
        let called = nccl().called().into_iter().filter(|f| *f != ncclCommGetAsyncError);
        let ends = [ncclDevCommDestroy, ncclDevCommDestroy, ncclCommDestroy];
        assert_eq!(called.collect::<Vec<_>>(), ends);
        let outcome = stream.launch((&kept,), |_, _| {});
        assert_error!(outcome, Stale, "device communicator", "has ended");
        assert_eq!(nccl().live().device_communicators, 0);
        Ok(())
    });
}

/// Its communicator ends on a thread other than the launching one.
#[test]
fn a_launch_that_has_begun_keeps_what_it_takes() {
    on(NEWEST, || {
        let (mut comm, api) = with_api()?;
        let dev = comm.dev_comm(&api, &needs_of(1))?;
        let stream = comm.device().stream()?;
        let (begins, begun) = channel();
        let meanwhile = Arc::new(AtomicUsize::new(0));
        let seen = meanwhile.clone();
        thread::scope(|scope| {
            let dev = &dev;
            let launches = scope.spawn(move || {
                stream.launch((dev,), move |_, _| {
                    begins.send(()).expect("somebody listens");
                    for _ in 0..100 {
                        thread::sleep(Duration::from_millis(1));
                        seen.fetch_add(count(ncclDevCommDestroy) + count(ncclCommAbort), Relaxed);
                    }
                })?;
                let outcome = stream.launch((dev,), |_, _| {});
                assert_error!(outcome, Stale, "device communicator", "has ended");
                Ok::<_, Error>(())
            });
            begun.recv().expect("it runs at the call");
            comm.finish()?;
            launches.join().expect("no panic")
        })?;
        assert_eq!(meanwhile.load(Relaxed), 0, "it ended while a launch had it");
        assert_eq!((count(ncclDevCommDestroy), count(ncclCommAbort)), (1, 0));
        Ok(())
    });
}

/// A launch within a launch, on the same stream and on another one.
#[test]
fn a_launch_may_launch_another_with_the_same_one() {
    thread_local! {
        static INNER: RefCell<Option<(Stream<Gpu>, DevComm<Gpu>)>> = const { RefCell::new(None) };
    }
    on(NEWEST, || {
        let (mut comm, api) = with_api()?;
        let (one, other) = (comm.dev_comm(&api, &needs_of(1))?, comm.dev_comm(&api, &needs_of(2))?);
        INNER.set(Some((comm.device().stream()?, one)));
        INNER.with_borrow(|inner| {
            let Some((stream, one)) = inner else { return Ok(()) };
            stream.launch((one, &other, one), |_, _| {
                INNER.with_borrow(|inner| {
                    let Some((stream, one)) = inner else { return };
                    stream.launch(one, |_, _| {}).expect("it is not over");
                });
            })?;
            stream.launch(one, |_, _| {})
        })?;
        let Some((_, one)) = INNER.take() else { panic!("it is there") };
        comm.close_dev_comm(one)?;
        comm.close_dev_comm(other)?;
        comm.finish()
    });
}

/// Memory that a kernel may access is not unmapped before the kernel is over.
#[test]
fn an_abort_waits_for_kernels_that_have_one() {
    on(NEWEST, || {
        let (mut comm, api) = with_api()?;
        let dev = comm.dev_comm(&api, &needs_of(1))?;
        let stream = comm.device().stream()?;
        let mut x = comm.device().zeros::<f32>(8)?;
        let raw = handle(&stream)?;
        cuda().hold(raw);
        stream.launch((&dev,), |_, _| {})?;
        stream.fill(&mut x, 1.0)?;
        clear();
        comm.abort();
        // NCCL's work on the stream ends, and nothing is unmapped.
        assert_eq!((count(ncclCommRevoke), count(ncclCommAbort)), (1, 0));
        cuda().release(raw);
        until("it is aborted", || count(ncclCommAbort) == 1);
        assert_error!(stream.launch((&dev,), |_, _| {}), Stale, "device communicator", "has ended");
        Ok(())
    });
}

/// The launch that contains the closure uses it, so it ends after the launch.
#[test]
fn a_closure_that_ends_the_communicator() {
    on(NEWEST, || {
        for aborts in [false, true] {
            let (mut comm, api) = with_api()?;
            let dev = comm.dev_comm(&api, &needs_of(1))?;
            let stream = comm.device().stream()?;
            clear();
            let ended = move || count(ncclDevCommDestroy) + count(ncclCommAbort);
            stream.launch((&dev,), move |_, _| {
                match aborts {
                    true => drop(comm.abort()),
                    false => drop(comm),
                }
                assert_eq!(ended(), 0);
            })?;
            until("it ends after the launch", || ended() == 1);
            let outcome = stream.launch((&dev,), |_, _| {});
            assert_error!(outcome, Stale, "device communicator", "has ended");
        }
        Ok(())
    });
}

#[test]
fn what_another_communicator_made_is_no_use_here() {
    on(NEWEST, || {
        let (mut comm, api) = with_api()?;
        let mut theirs = alone()?;
        let dev = comm.dev_comm(&api, &needs_of(1))?;
        let Err(failed) = theirs.try_close_dev_comm(dev) else { panic!("it is another's") };
        assert!(failed.error.to_string().contains("device communicator"), "{}", failed.error);
        comm.close_dev_comm(failed.value)?;
        theirs.finish()?;
        nccl().fail(ncclDevCommCreate, ncclResult_t::ncclSystemError);
        assert_error!(comm.dev_comm(&api, &needs_of(1)), NcclFailed, "ncclDevCommCreate");
        assert_error!(comm.dev_comm(&api, &needs_of(1)), NcclFailed, "ncclDevCommCreate");
        comm.abort();
        Ok(())
    });
}

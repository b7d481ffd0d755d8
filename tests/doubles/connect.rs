//! Communicators' creation, and their ends.

use std::collections::BTreeSet;
use std::ffi::{CStr, c_char, c_int};
use std::future::Future;
use std::pin::Pin;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use fake_nccl::{Call, Value};
use nccl_sys::Function::{
    ncclCommAbort, ncclCommDestroy, ncclCommInitRankConfig, ncclGetUniqueId, ncclGetVersion,
};
use nccl_sys::{NCCL_CONFIG_UNDEF_INT, ncclConfig_t, ncclResult_t};
use typed_nccl::{
    AnyDevice, CommConfig, Communicator, Cuda, Error, Finalized, Result, Seat, Sum, UniqueId, tag,
};

use crate::common::{
    LONG, Wire, alone, calls, clear, connect, connect_for, count, handle, says, until,
};
use crate::scenario::{NEWEST, cuda, nccl, on, release};

tag!(TensorParallel);

/// The devices that were current when NCCL connected.
static CURRENT: Mutex<Vec<Option<u32>>> = Mutex::new(Vec::new());

fn watch_devices() {
    nccl().before(|function| {
        if function == ncclCommInitRankConfig {
            CURRENT.lock().expect("no panic").push(cuda().current());
        }
    });
}

fn slots(call: &Call) -> (c_int, c_int) {
    let field = |name| call.field::<ncclConfig_t, c_int>("config", name);
    (field("numRmaCtx"), field("numRmaSig"))
}

fn name(call: &Call) -> String {
    let address = call.field::<ncclConfig_t, usize>("config", "commName");
    let text = std::ptr::with_exposed_provenance::<c_char>(address);
    // SAFETY: NCCL keeps the pointer, so the text ends with a zero and is never freed.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// The rank and the number of ranks according to NCCL.
fn seat<T>(comm: &Communicator<Cuda<T>>) -> Result<(c_int, c_int)> {
    let handle = std::ptr::without_provenance_mut(Wire::of(comm)?.comm as usize);
    let api = nccl().api().expect("the double loads");
    let (mut rank, mut size) = (-1, -1);
    let (of_rank, of_size) = (api.ncclCommUserRank(), api.ncclCommCount());
    // SAFETY: the double looks the handle up; `rank` is a place for a number.
    let asked = unsafe { of_rank.expect("every release has it")(handle, &raw mut rank) };
    assert_eq!(asked, ncclResult_t::ncclSuccess);
    // SAFETY: as above, for `size`.
    let asked = unsafe { of_size.expect("every release has it")(handle, &raw mut size) };
    assert_eq!(asked, ncclResult_t::ncclSuccess);
    Ok((rank, size))
}

#[test]
fn each_rank_joins_once() {
    on(NEWEST, || {
        watch_devices();
        let mut ids = BTreeSet::new();
        for n in [1, 2, 4] {
            clear();
            Cuda::spmd(n, |place| {
                let comm = place.init()?;
                assert_eq!(seat(&comm)?, (comm.rank().index() as c_int, n as c_int));
                assert_eq!(comm.size(), n);
                comm.finish()
            })?;
            let joins = calls(ncclCommInitRankConfig);
            let ranks: BTreeSet<_> = joins.iter().map(|call| call.int("rank")).collect();
            assert_eq!((joins.len(), ranks), (n, (0..n as i128).collect()));
            assert!(joins.iter().all(|call| call.int("nranks") == n as i128));
            let Value::Bytes(id) = joins[0].argument("commId") else { panic!("an id is bytes") };
            assert!(joins.iter().all(|call| call.bytes("commId") == id));
            assert!(ids.insert(id.clone()), "a new one for each communicator");
            assert_eq!(count(ncclGetUniqueId), 1);
            let mut current = std::mem::take(&mut *CURRENT.lock().expect("no panic"));
            current.sort_unstable();
            assert_eq!(current, (0..n as u32).map(Some).collect::<Vec<_>>());
            assert!(joins.iter().all(|call| name(call) == "World"));
            let undefined = (NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT);
            assert!(joins.iter().all(|call| slots(call) == undefined));
        }
        Ok(())
    });
}

#[test]
fn ranks_meet_by_an_id() {
    on(NEWEST, || {
        let made = UniqueId::new()?;
        let id = UniqueId::from_bytes(made.to_bytes());
        thread::scope(|scope| {
            let join = |rank| -> Result<()> {
                let seat = Seat::with_id(id, rank, 3)?;
                assert_eq!((seat.rank().index(), seat.size()), (rank, 3));
                let comm = seat.init(Cuda::<AnyDevice>::any(rank as u32)?)?;
                assert_eq!((comm.rank().index(), comm.size()), (rank, 3));
                comm.finish()
            };
            let ranks = [0, 1, 2].map(|rank| scope.spawn(move || join(rank)));
            ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
        })?;
        let joins = calls(ncclCommInitRankConfig);
        let ranks: BTreeSet<_> = joins.iter().map(|call| call.int("rank")).collect();
        assert_eq!((joins.len(), ranks), (3, (0..3).collect()));
        assert!(joins.iter().all(|call| call.int("nranks") == 3));
        assert!(joins.iter().all(|call| call.bytes("commId") == joins[0].bytes("commId")));
        Ok(())
    });
}

#[test]
fn a_rank_joins_on_its_device() {
    on(NEWEST, || {
        watch_devices();
        for ordinal in [2, 0, 3, 2] {
            let comm = Seat::local(1).remove(0).init(Cuda::<AnyDevice>::any(ordinal)?)?;
            assert_eq!(comm.device().ordinal(), ordinal);
            comm.finish()?;
            let current = std::mem::take(&mut *CURRENT.lock().expect("no panic"));
            assert_eq!(current, [Some(ordinal)]);
        }
        Ok(())
    });
}

fn configured(
    contexts: u32,
    signals: u32,
) -> Result<Communicator<TensorParallel<Cuda<AnyDevice>>>> {
    let config = CommConfig::builder().contexts(contexts).signals(signals).build();
    let seat = Seat::local(1).remove(0);
    let builder = Communicator::builder().seat(seat).device(Cuda::<AnyDevice>::any(0)?);
    builder.label::<TensorParallel>().config(config).build().connect()
}

#[test]
fn what_is_configured_is_told() {
    on(NEWEST, || {
        for (contexts, signals) in [(2, 3), (1, 2), (4, 1)] {
            clear();
            let comm = configured(contexts, signals)?;
            let joins = calls(ncclCommInitRankConfig);
            let [join] = joins.as_slice() else { panic!("{joins:?}") };
            assert_eq!(name(join), "TensorParallel");
            assert_eq!(slots(join), (contexts as c_int, signals as c_int));
            comm.finish()?;
        }
        Ok(())
    });
}

#[test]
fn several_contexts_need_a_newer_release() {
    on(release("2.27.7"), || {
        for (contexts, signals) in [(2, 1), (1, 2)] {
            let outcome = configured(contexts, signals);
            let what = "more than one context or signal needs NCCL 2.31.2; 2.27.7 is loaded";
            assert_error!(outcome, Unsupported, what, "TYPED_NCCL_LIB");
        }
        assert_eq!(nccl().called(), [ncclGetVersion]);
        configured(1, 1)?.finish()
    });
}

#[test]
fn finish_destroys() {
    on(NEWEST, || {
        for n in [1, 3] {
            clear();
            Cuda::spmd(n, |place| {
                let comm = place.init()?;
                let mut x = comm.device().zeros::<f32>(8)?;
                comm.all_reduce_in_place(&mut x, Sum)?;
                let _: Communicator<_, Finalized> = comm.try_finish()?;
                Ok::<_, Error>(())
            })?;
            assert_eq!((count(ncclCommDestroy), count(ncclCommAbort)), (n, 0));
            assert_eq!(nccl().live().communicators, 0);
        }
        Ok(())
    });
}

/// Enqueued work may still run.
#[test]
fn finish_waits_for_the_work() {
    on(NEWEST, || {
        let comm = alone()?;
        let mut x = comm.device().zeros::<f32>(8)?;
        let other = comm.device().stream()?;
        for stream in [comm.stream(), &other] {
            comm.on(stream).all_reduce_in_place(&mut x, Sum)?;
            cuda().hold(handle(stream)?);
        }
        let held = [handle(comm.stream())?, handle(&other)?];
        thread::scope(|scope| {
            clear();
            let finish = scope.spawn(|| comm.finish());
            until("it looks", || cuda().called().contains(&"cuEventQuery"));
            cuda().release(held[0]);
            until("it looks again", || cuda().called().contains(&"cuStreamQuery"));
            assert_eq!(count(ncclCommDestroy), 0);
            cuda().release(held[1]);
            finish.join().expect("no panic")
        })?;
        assert_eq!((count(ncclCommDestroy), count(ncclCommAbort)), (1, 0));
        Ok(())
    });
}

#[test]
fn abort_aborts() {
    on(NEWEST, || {
        for n in [1, 2] {
            clear();
            Cuda::spmd(n, |place| {
                let comm = place.init()?;
                comm.barrier()?;
                if comm.rank().index() == 1 {
                    comm.abort();
                    return Ok(());
                }
                let gone = comm.abort_because("the test says so");
                assert!(gone.cause().is_some());
                Ok::<_, Error>(())
            })?;
            assert_eq!((count(ncclCommAbort), count(ncclCommDestroy)), (n, 0));
            assert_eq!(nccl().live().communicators, 0);
        }
        Ok(())
    });
}

#[test]
fn dropped_communicators_are_destroyed_when_their_work_is_over() {
    on(NEWEST, || {
        for n in [1, 2] {
            let held = Cuda::spmd(n, |place| {
                let comm = place.init()?;
                let mut x = comm.device().zeros::<f32>(8)?;
                comm.all_reduce_in_place(&mut x, Sum)?;
                let stream = handle(comm.stream())?;
                cuda().hold(stream);
                comm.barrier()?;
                clear();
                drop(comm);
                Ok::<_, Error>(stream)
            })?;
            let looked = || cuda().called().iter().filter(|name| **name == "cuStreamQuery").count();
            until("it looks", || looked() > 3 * n);
            assert_eq!((count(ncclCommDestroy), count(ncclCommAbort)), (0, 0));
            assert_eq!(nccl().live().communicators, n);
            held.into_iter().for_each(|stream| cuda().release(stream));
            until("it ends", || nccl().live().communicators == 0);
            assert_eq!((count(ncclCommDestroy), count(ncclCommAbort)), (n, 0));
        }
        Ok(())
    });
}

#[test]
fn a_rank_that_finishes_is_told_who_dropped_its_communicator() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let comm = connect(place, 20_000)?;
            comm.barrier()?;
            if comm.rank().index() == 0 {
                return Ok::<_, Error>(());
            }
            let error = comm.finish().expect_err("rank 0 did not finish");
            assert!(error.is_peer_failure(), "{error}");
            says(&error, &["rank 0 left: ", "dropped without `finish`"]);
            Ok(())
        })?;
        until("all have ended", || nccl().live().communicators == 0);
        assert_eq!((count(ncclCommDestroy), count(ncclCommAbort)), (2, 0));
        Ok(())
    });
}

/// The other rank never ends: the dropped one is aborted, and the other gets an error.
#[test]
fn a_dropped_communicator_waits_for_the_others_until_its_deadline() {
    on(NEWEST, || {
        Cuda::spmd(2, |place| {
            let mut comm = connect_for(place, 3000)?;
            comm.within(LONG).barrier()?;
            if comm.rank().index() == 0 {
                drop(comm);
                return Ok::<_, Error>(());
            }
            until("the other is aborted", || count(ncclCommAbort) == 1);
            until("this one is told", || comm.health().is_err());
            says(&comm.health().expect_err("told"), &["rank 0 left", "dropped without `finish`"]);
            drop(comm);
            Ok(())
        })?;
        until("all have ended", || nccl().live().communicators == 0);
        assert_eq!((count(ncclCommDestroy), count(ncclCommAbort)), (0, 2));
        Ok(())
    });
}

#[test]
fn a_rank_that_nccl_refuses() {
    on(NEWEST, || {
        nccl().set_last_error("no network that works");
        nccl().fail(ncclCommInitRankConfig, ncclResult_t::ncclSystemError);
        let error = assert_error!(
            alone(),
            NcclFailed,
            "ncclCommInitRankConfig of NCCL 2.32.3 gave ncclSystemError: unhandled system error",
            "; no network that works",
        );
        assert!(error.is_fatal());
        assert_eq!((count(ncclCommAbort), count(ncclCommInitRankConfig)), (0, 1));

        // A failed call may leave a handle.
        nccl().fail(ncclCommInitRankConfig, ncclResult_t::ncclInProgress);
        assert_error!(alone(), Unsupported, "something sets NCCL_COMM_BLOCKING=0");
        assert_eq!((count(ncclCommAbort), count(ncclCommDestroy)), (1, 0));
        assert_eq!(nccl().live().communicators, 0);

        nccl().fail(ncclGetUniqueId, ncclResult_t::ncclInternalError);
        assert_error!(alone(), NcclFailed, "ncclGetUniqueId", "ncclInternalError");
        alone()?.finish()
    });
}

#[test]
fn the_others_hear_of_a_rank_that_nccl_refuses() {
    on(NEWEST, || {
        nccl().fail(ncclCommInitRankConfig, ncclResult_t::ncclSystemError);
        let refused = Cuda::spmd(3, |place| {
            // Which call comes first, and whether the others have connected by then, is chance.
            let error = match connect(place, 20_000) {
                Err(error) => error,
                Ok(comm) => comm.barrier().expect_err("one is missing"),
            };
            let refused = matches!(error, Error::NcclFailed(_));
            if !refused {
                assert!(matches!(error, Error::PeerFailed(_)), "{error}");
            }
            Ok::<_, Error>(refused)
        })?;
        assert_eq!(refused.iter().filter(|refused| **refused).count(), 1);
        // A rank that learns of it early does not call NCCL.
        let made = || count(ncclCommInitRankConfig) - 1;
        until("what was made is aborted", || count(ncclCommAbort) == made());
        assert_eq!((nccl().live().communicators, count(ncclCommDestroy)), (0, 0));
        Ok(())
    });
}

/// NCCL's init does not return, as when it waits for ranks that never come.
#[test]
fn a_rank_that_leaves_while_the_others_connect() {
    static GO_ON: AtomicBool = AtomicBool::new(false);
    on(NEWEST, || {
        nccl().before(|function| {
            while function == ncclCommInitRankConfig && !GO_ON.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        });
        Cuda::spmd(2, |place| {
            if place.rank().index() == 0 {
                let why = "rank 1 left: it was aborted: it has other plans";
                assert_error!(connect(place, 20_000), PeerFailed, "init on World", why);
                return Ok::<_, Error>(());
            }
            let (seat, device) = place.into_parts();
            let mut starting = Some(seat.start(device)?);
            until("all have come, and NCCL holds them up", || {
                let soon = Instant::now() + Duration::from_millis(100);
                let pending = starting.take().expect("it is put back");
                let failed = pending.try_ready(soon).expect_err("NCCL holds it up");
                assert!(matches!(failed.error, Error::Timeout(_)), "{failed}");
                starting = Some(failed.value);
                let words = "all ranks have come, and the backend is still connecting";
                failed.error.to_string().contains(words)
            });
            let starting = starting.expect("it is put back");
            starting.abort_because("it has other plans");
            Ok(())
        })?;
        assert_eq!(nccl().live().communicators, 0);
        GO_ON.store(true, Ordering::Relaxed);
        // Communicators that NCCL made too late are aborted.
        until("both are aborted", || count(ncclCommAbort) == 2);
        assert_eq!((nccl().live().communicators, count(ncclCommDestroy)), (0, 0));
        Ok(())
    });
}

/// NCCL's init blocks until both have called it; a polling thread does not.
#[test]
fn two_ranks_of_one_thread_are_awaited() {
    on(NEWEST, || {
        let start = |(seat, device): (Seat, u32)| -> Result<_> {
            Ok(seat.start(Cuda::<AnyDevice>::any(device)?)?.ready())
        };
        let pending = Seat::local(2).into_iter().zip(0..).map(start);
        let mut pending = pending.collect::<Result<Vec<_>>>()?;
        let (mut comms, context) = (Vec::new(), &mut Context::from_waker(Waker::noop()));
        until("both are ready", || {
            pending.retain_mut(|one| match Pin::new(one).poll(context) {
                Poll::Ready(comm) => {
                    comms.push(comm);
                    false
                }
                Poll::Pending => true,
            });
            pending.is_empty()
        });
        thread::scope(|scope| {
            let finish = |comm: Result<Communicator<_>>| scope.spawn(|| comm?.finish());
            let threads: Vec<_> = comms.into_iter().map(finish).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })
    });
}

/// NCCL's init returns, and nothing takes its communicator.
#[test]
fn a_communicator_that_is_made_and_not_wanted() {
    static GO_ON: AtomicBool = AtomicBool::new(false);
    on(NEWEST, || {
        nccl().before(|function| {
            while function == ncclCommInitRankConfig && !GO_ON.load(Ordering::Relaxed) {
                thread::yield_now();
            }
        });
        for turn in 0..50 {
            clear();
            GO_ON.store(false, Ordering::Relaxed);
            let starting = Seat::local(1).remove(0).start(Cuda::<AnyDevice>::any(0)?)?;
            let failed = starting.try_ready(Instant::now()).expect_err("NCCL holds it up");
            GO_ON.store(true, Ordering::Relaxed);
            // Before, while or after its thread hands it over.
            if turn % 2 == 0 {
                until("it is made", || nccl().live().communicators == 1);
            }
            drop(failed);
            until("it is aborted", || count(ncclCommAbort) == 1);
            assert_eq!((nccl().live().communicators, count(ncclCommDestroy)), (0, 0));
        }
        Ok(())
    });
}

#[test]
fn ranks_that_cannot_be_one_communicator() {
    on(NEWEST, || {
        let mut seats = Seat::local(2).into_iter();
        let (first, second) = (seats.next().expect("two"), seats.next().expect("two"));
        drop(second);
        let outcome = first.init(Cuda::<AnyDevice>::any(0)?);
        assert_error!(outcome, PeerFailed, "rank 1 left: its seat was dropped");

        let both = thread::scope(|scope| {
            let join = |seat: Seat| scope.spawn(|| seat.init(Cuda::<AnyDevice>::any(3)?).map(drop));
            let threads: Vec<_> = Seat::local(2).into_iter().map(join).collect();
            threads.into_iter().map(|t| t.join().expect("no panic")).collect::<Vec<_>>()
        });
        for outcome in both {
            assert_error!(outcome, InitFailed, "ranks 0 and 1 are both on cuda:3");
        }
        assert_eq!(nccl().called(), []);
        Ok(())
    });
}

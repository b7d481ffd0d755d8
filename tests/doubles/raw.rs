//! Communicators made by another library: the NCCL calls, and which side ends them.

use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use nccl_sys::Function::{
    ncclAllReduce, ncclCommAbort, ncclCommDeregister, ncclCommDestroy, ncclCommInitRankConfig,
    ncclCommRevoke, ncclCommWindowDeregister, ncclRedOpDestroy,
};
use nccl_sys::{Function, NCCL_COMM_NULL, ncclComm_t, ncclResult_t, ncclUniqueId};
use typed_nccl::{AnyDevice, Communicator, Cuda, Error, Result, Seat, Sum};

use crate::common::{count, says, until};
use crate::scenario::{NEWEST, nccl, on, release};

type Gpu = Cuda<AnyDevice>;
type Comm = Communicator<Gpu>;

const OK: ncclResult_t = ncclResult_t::ncclSuccess;

/// A communicator, as another library makes it.
fn theirs(rank: i32, size: i32, id: ncclUniqueId) -> ncclComm_t {
    let api = nccl().api().expect("the double loads");
    nccl().set_device(rank);
    let (init, mut comm) = (api.ncclCommInitRank().expect("there"), NCCL_COMM_NULL);
    // SAFETY: `comm` is valid for a write, and each rank is taken once.
    assert_eq!(unsafe { init(&raw mut comm, size, id, rank) }, OK);
    comm
}

pub(crate) fn id() -> ncclUniqueId {
    let api = nccl().api().expect("the double loads");
    let (make, mut id) = (api.ncclGetUniqueId().expect("there"), ncclUniqueId::zeroed());
    // SAFETY: `id` is valid for a write.
    assert_eq!(unsafe { make(&raw mut id) }, OK);
    id
}

fn ends(comm: ncclComm_t, aborts: bool) {
    let api = nccl().api().expect("the double loads");
    let end = if aborts { api.ncclCommAbort() } else { api.ncclCommDestroy() };
    // SAFETY: it is alive, and nothing uses it.
    assert_eq!(unsafe { end.expect("there")(comm) }, OK);
}

fn adopt(raw: ncclComm_t) -> Result<Comm> {
    // SAFETY: nothing else uses it.
    unsafe { Communicator::from_raw(Seat::local(1).remove(0), Gpu::any(0)?, raw) }
}

fn ended() -> (usize, usize) {
    (count(ncclCommDestroy), count(ncclCommAbort))
}

#[test]
fn whoever_has_it_ends_it() {
    on(NEWEST, || {
        adopt(theirs(0, 1, id()))?.finish()?;
        assert_eq!(ended(), (1, 0));
        adopt(theirs(0, 1, id()))?.abort();
        assert_eq!(ended(), (1, 1));
        drop(adopt(theirs(0, 1, id()))?);
        until("the reaper ends it", || ended() == (2, 1));
        let raw = theirs(0, 1, id());
        assert!(ptr::eq(adopt(raw)?.into_raw()?, raw));
        assert_eq!((ended(), count(ncclCommInitRankConfig)), ((2, 1), 0));
        ends(raw, false);
        // One of ours is given away too.
        let raw = Seat::local(1).remove(0).init(Gpu::any(0)?)?.into_raw()?;
        assert_eq!((ended(), nccl().live().communicators), ((3, 1), 1));
        ends(raw, false);
        Ok(())
    });
}

#[test]
fn nothing_of_ours_stays_in_it() {
    on(NEWEST, || {
        let raw = theirs(0, 1, id());
        let mut comm = adopt(raw)?;
        let window = comm.window::<f32>(8)?;
        // Nothing could close this one any more.
        drop(comm.window::<f32>(8)?);
        let _operator = comm.pre_mul_sum(2.0_f32)?;
        let buffer = comm.device().nccl_zeros::<f32>(8)?;
        let _registered = comm.register_buffer(&buffer)?;
        // The kernels have their own window.
        let _kernels = comm.kernels()?;
        assert_eq!(nccl().live().windows, 3);
        assert!(ptr::eq(comm.into_raw()?, raw));
        assert_eq!((count(ncclCommWindowDeregister), count(ncclRedOpDestroy)), (3, 1));
        assert_eq!(nccl().live().windows, 0);
        assert_eq!(count(ncclCommDeregister), 1);
        assert_eq!(window.to_vec()?, [0.0; 8]);
        ends(raw, false);
        Ok(())
    });
}

/// NCCL's handle while the communicator stays ours.
#[test]
fn the_handle_is_lent_for_calls_of_nccl() {
    on(NEWEST, || {
        let raw = theirs(0, 1, id());
        let comm = adopt(raw)?;
        // SAFETY: it is only looked at, and asked for its number of ranks.
        let lent = unsafe { comm.as_raw() }?;
        assert!(ptr::eq(lent, raw));
        let (api, mut ranks) = (nccl().api().map_err(Error::other)?, 0);
        let count = api.ncclCommCount().expect("every release has it");
        // SAFETY: the communicator is alive; the number is valid for the write.
        let result = unsafe { count(lent, &raw mut ranks) };
        assert_eq!((result, ranks), (ncclResult_t::ncclSuccess, 1));
        let mut x = comm.device().from_slice(&[1.0_f32])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        assert!(ptr::eq(comm.into_raw()?, raw));
        ends(raw, false);
        Ok(())
    });
}

/// A communicator whose thread NCCL held up was freed by a revocation and cannot be used any more.
#[test]
fn what_was_revoked_is_not_given_away() {
    on(NEWEST, || {
        static INSIDE: AtomicBool = AtomicBool::new(false);
        nccl().before(|function| {
            if function == ncclCommWindowDeregister {
                INSIDE.store(true, Relaxed);
            }
        });
        let mut comm = adopt(theirs(0, 1, id()))?;
        drop(comm.window::<f32>(8)?);
        nccl().set_stuck(ncclCommWindowDeregister, true);
        let asks = comm.abort_handle();
        let given = thread::spawn(move || comm.into_raw().map(drop).map_err(|failed| failed.error));
        until("its thread is inside", || INSIDE.load(Relaxed));
        assert!(asks.abort("enough"));
        let error = given.join().expect("no panic").expect_err("it was revoked");
        says(&error, &["enough"]);
        until("it is aborted", || ended() == (0, 1));
        assert_eq!(count(ncclCommRevoke), 1);
        Ok(())
    });
}

#[test]
fn what_cannot_be_used_is_named_and_stays() {
    on(NEWEST, || {
        let raw = theirs(0, 1, id());
        for (state, parts) in [
            (ncclResult_t::ncclInProgress, ["is in progress", "ncclCommGetAsyncError"]),
            (ncclResult_t::ncclSystemError, ["ncclCommGetAsyncError", "ncclSystemError"]),
        ] {
            nccl().set_async_error(raw, state);
            let error = assert_error!(adopt(raw), InitFailed, "rank 0 brought a communicator that");
            says(&error, &parts);
        }
        nccl().set_async_error(raw, OK);
        assert_eq!((ended(), nccl().misuse().len()), ((0, 0), 0));
        ends(raw, true);
        assert_error!(adopt(raw), InitFailed, "cannot be used", "ncclCommGetAsyncError");
        // The double reports this query as misuse.
        nccl().clear();
        Ok(())
    });
}

#[test]
fn an_error_of_one_rank_is_told_to_both() {
    on(NEWEST, || {
        let (id, seats) = (id(), Seat::local(2));
        let ranks = seats.into_iter().map(|seat| {
            thread::spawn(move || {
                let rank = seat.rank().index();
                let raw = theirs(rank as i32, 2, id);
                if rank == 1 {
                    nccl().set_async_error(raw, ncclResult_t::ncclRemoteError);
                }
                // SAFETY: nothing else uses it.
                let comm = unsafe { Communicator::from_raw(seat, Gpu::any(rank as u32)?, raw) };
                let error = comm.expect_err("one has failed");
                assert!(matches!(error, Error::InitFailed(_)), "{error}");
                says(&error, &["rank 1", "cannot be used", "ncclRemoteError"]);
                ends(raw, true);
                Ok(())
            })
        });
        let ranks: Vec<_> = ranks.collect();
        ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
    });
}

#[test]
fn ranks_are_connected_where_nccl_does_not() {
    for (machine, connects) in [(NEWEST, 0), (release("2.27.7"), 2)] {
        on(machine, || {
            let (id, seats) = (id(), Seat::local(2));
            let rank = |seat: Seat| -> Result<()> {
                let rank = seat.rank().index();
                let raw = theirs(rank as i32, 2, id);
                // SAFETY: nothing else uses it.
                unsafe { Communicator::from_raw(seat, Gpu::any(rank as u32)?, raw) }?.finish()
            };
            thread::scope(|scope| {
                let ranks: Vec<_> =
                    seats.into_iter().map(|seat| scope.spawn(move || rank(seat))).collect();
                ranks.into_iter().try_for_each(|rank| rank.join().expect("no panic"))
            })?;
            assert_eq!(count(ncclAllReduce), connects);
            Ok(())
        });
    }
}

/// Operations that are still in progress in NCCL are waited for, one by one and in groups.
#[test]
fn operations_in_progress_are_waited_for() {
    on(NEWEST, || {
        let comm = adopt(theirs(0, 1, id()))?;
        let mut x = comm.device().zeros::<f32>(4)?;
        for function in [ncclAllReduce, Function::ncclBroadcast, Function::ncclGroupEnd] {
            nccl().fail(function, ncclResult_t::ncclInProgress);
        }
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.broadcast_in_place(&mut x, 0)?;
        comm.finish()
    });
}

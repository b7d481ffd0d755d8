//! The life of a communicator. Handles are returned at once; no call waits for other ranks unless
//! data moves. As with NCCL, ending a null communicator succeeds.

use std::env;
use std::ffi::c_int;
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use nccl_sys::{
    Layout, NCCL_COMM_NULL, NCCL_CONFIG_UNDEF_INT, NCCL_REVOKE_DEFAULT, NCCL_SHRINK_ABORT,
    NCCL_SPLIT_NOCOLOR, NCCL_SUSPEND_MEM, Version, ncclComm, ncclComm_t, ncclCommMemStat_t,
    ncclConfig_t, ncclResult_t, ncclUniqueId,
};

use crate::books::Communicator;
use crate::export::exports;
use crate::freeing;
use crate::moves::{self, Member, Slots, Terms};
use crate::pointer::Place;
use crate::state::{Answer, Refusal, State};

/// An id that this library has not used before.
fn id(state: &mut State) -> ncclUniqueId {
    if moves::are_on() {
        return moves::Id::new(state.handle()).to_nccl();
    }
    let mut bytes = [0xfa; 128];
    bytes[..8].copy_from_slice(&(state.handle() as u64).to_ne_bytes());
    ncclUniqueId::from_bytes(bytes)
}

/// The common part of `ncclCommInitRank` and its variants.
fn join(
    state: &mut State,
    comm: Place<ncclComm_t>,
    count: c_int,
    ids: &[ncclUniqueId],
    rank: c_int,
    config: Option<Place<ncclConfig_t>>,
) -> Answer {
    comm.needed()?;
    if let Some(config) = config {
        config.source().optional_header()?;
    }
    let device = state.thread().device;
    let terms = terms(config);
    let joined = Communicator { blocks: terms.blocks, ..Communicator::new(rank, count, device) };
    joined.has_rank(rank)?;
    if ids.is_empty() || ids.len() > count as usize {
        let words = format!("{} ids for {count} ranks: there is one to each", ids.len());
        return Err(Refusal::argument(words));
    }
    state.seat(ids, rank, count)?;
    if !moves::are_on() {
        let has_signals = config.is_some_and(is_eager);
        let joined = Communicator { id: Some(ids[0].to_bytes()), has_signals, ..joined };
        return comm.put(state.enter(joined));
    }
    let ids = ids.iter().map(moves::Id::of).collect::<Result<Vec<_>, _>>()?;
    let seat = (rank as usize, count as usize);
    moves::later(move || comm.put(meet(moves::join(&ids, seat, terms)?, terms.blocks)))
}

/// A number that a configuration sets.
fn number(config: Place<ncclConfig_t>, name: &str) -> Option<usize> {
    let (bytes, field) = (config.source().bytes()?, ncclConfig_t::field(name)?);
    let bytes = bytes.get(field.offset..field.offset + field.size)?;
    let number = c_int::from_ne_bytes(bytes.try_into().ok()?);
    usize::try_from(number).ok().filter(|_| number != NCCL_CONFIG_UNDEF_INT)
}

/// Whether signals are set up with the communicator.
fn is_eager(config: Place<ncclConfig_t>) -> bool {
    !config.is_null() && number(config, "rmaEagerInit") == Some(1)
}

/// The configuration's settings.
fn terms(config: Option<Place<ncclConfig_t>>) -> Terms {
    let number = |name| number(config?, name);
    let of = |name| number(name).unwrap_or(1);
    let slots = Slots { contexts: of("numRmaCtx"), signals: of("numRmaSig") };
    let (split_share, blocks) = (number("splitShare") == Some(1), number("blocking") != Some(0));
    Terms { slots, split_share, blocks }
}

/// Adds a rank that moves data to the books.
fn meet(member: Arc<Member>, blocks: bool) -> ncclComm_t {
    let (rank, count) = (member.room.rank as c_int, member.room.size as c_int);
    let joined = Communicator { blocks, ..Communicator::new(rank, count, member.device) };
    let mut state = State::lock();
    let handle = state.enter(joined);
    state.members.insert(handle.addr(), member);
    handle
}

/// How long an abort takes: `FAKE_NCCL_ABORT_TAKES`, in milliseconds.
static ABORT_TAKES: LazyLock<Duration> = LazyLock::new(|| {
    let millis = env::var("FAKE_NCCL_ABORT_TAKES").ok().and_then(|millis| millis.parse().ok());
    Duration::from_millis(millis.unwrap_or(0))
});

/// From this release on the end of a communicator waits for the other ranks of the host.
const MEETS: Version = Version::new(2, 31, 2);

/// The end of a communicator. To destroy it waits for other ranks, then for all work on its device;
/// what an abort waits for depends on the work that it ends, and is not simulated.
fn leave(state: &mut State, comm: Place<ncclComm>, aborts: bool) -> Answer {
    if comm.is_null() {
        return Ok(());
    }
    let member = state.moving(comm);
    state.has_no_graph(comm.address())?;
    let gpu = state.live(comm)?.gpu;
    let meets = state.at_least(MEETS);
    state.leave(comm)?;
    moves::later(move || {
        if aborts {
            thread::sleep(*ABORT_TAKES);
        }
        let free = || {
            if !aborts {
                freeing::until_idle(gpu);
            }
        };
        match member {
            Some(member) => member.end(aborts, meets, free),
            None => free(),
        }
        Ok(())
    })
}

/// The reported device memory of each communicator, in bytes.
const SUSPENDABLE: u64 = 48 << 20;
const PERSISTENT: u64 = 16 << 20;

/// Suspends or resumes a communicator: waits for the device and for all ranks.
fn shift(state: &mut State, comm: Place<ncclComm>, suspended: bool) -> Answer {
    let Some(member) = state.moving(comm) else {
        state.live(comm)?.suspended = suspended;
        return Ok(());
    };
    if member.is_busy() {
        return Err(Refusal::usage("operations are under way, here or on other ranks"));
    }
    if member.shares() {
        return Err(Refusal::usage("its memory is that of other communicators too"));
    }
    moves::later(move || {
        moves::barrier(&member)?;
        State::lock().live(comm)?.suspended = suspended;
        Ok(())
    })
}

/// A parent that can have children, even if it is revoked.
fn parent(state: &mut State, comm: Place<ncclComm>) -> Result<Communicator, Refusal> {
    let parent = *state.live(comm)?;
    if parent.finalized || parent.suspended || parent.in_progress > 0 {
        return state.ready(comm);
    }
    Ok(parent)
}

exports! {
    answer fn ncclGetUniqueId(uniqueId: *mut ncclUniqueId) -> ncclResult_t =
        |state| uniqueId.put(id(state));

    answer fn ncclCommInitRank(
        comm: *mut ncclComm_t,
        nranks: c_int,
        commId: ncclUniqueId,
        rank: c_int,
    ) -> ncclResult_t = |state| join(state, comm, nranks, &[commId], rank, None);

    answer fn ncclCommInitRankConfig(
        comm: *mut ncclComm_t,
        nranks: c_int,
        commId: ncclUniqueId,
        rank: c_int,
        config: *mut ncclConfig_t,
    ) -> ncclResult_t = |state| join(state, comm, nranks, &[commId], rank, Some(config));

    answer fn ncclCommInitRankScalable(
        newcomm: *mut ncclComm_t,
        nranks: c_int,
        myrank: c_int,
        nId: c_int,
        commIds: *mut ncclUniqueId [nId],
        config: *mut ncclConfig_t,
    ) -> ncclResult_t = |state| {
        // SAFETY: the caller keeps NCCL's contract: there are `nId` ids.
        let ids = unsafe { commIds.source().list(nId) };
        join(state, newcomm, nranks, &ids.unwrap_or_default(), myrank, Some(config))
    };

    answer fn ncclCommInitAll(
        comm: *mut ncclComm_t,
        ndev: c_int,
        devlist: *const c_int [ndev],
    ) -> ncclResult_t = |state| {
        comm.needed()?;
        if ndev < 1 {
            return Err(Refusal::argument(format!("{ndev} devices are none")));
        }
        // SAFETY: the caller keeps NCCL's contract: there are `ndev` devices, or it is null.
        let devices = unsafe { devlist.list(ndev) }.unwrap_or_else(|| (0..ndev).collect());
        let mut distinct = devices.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() != devices.len() {
            return Err(Refusal::usage("a device is there twice"));
        }
        for ((index, rank), device) in (0..).zip(0..ndev).zip(devices) {
            // SAFETY: the caller keeps NCCL's contract: there is room for `ndev` handles, and
            // `comm` is not null.
            let place = unsafe { comm.at(index) };
            place.put(state.enter(Communicator::new(rank, ndev, device)))?;
        }
        Ok(())
    };

    answer fn ncclCommSplit(
        comm: ncclComm_t,
        color: c_int,
        key: c_int,
        newcomm: *mut ncclComm_t,
        config: *mut ncclConfig_t,
    ) -> ncclResult_t = |state| {
        newcomm.needed()?;
        config.source().optional_header()?;
        let parent = parent(state, comm)?;
        if color < NCCL_SPLIT_NOCOLOR {
            return Err(Refusal::argument(format!("{color} is no color")));
        }
        if let Some(member) = state.moving(comm) {
            let terms = (!config.is_null()).then(|| terms(Some(config)));
            return moves::later(move || {
                let child = moves::split(&member, color, key, terms)?;
                newcomm.put(child.map_or(NCCL_COMM_NULL, |child| meet(child, true)))
            });
        }
        if color == NCCL_SPLIT_NOCOLOR {
            return newcomm.put(NCCL_COMM_NULL);
        }
        let (rank, count) = state.splits.pop_front().unwrap_or((parent.rank, parent.count));
        let child = Communicator::new(rank, count, parent.device);
        newcomm.put(state.enter(Communicator { has_signals: is_eager(config), ..child }))
    };

    answer fn ncclCommShrink(
        comm: ncclComm_t,
        excludeRanksList: *mut c_int [excludeRanksCount],
        excludeRanksCount: c_int,
        newcomm: *mut ncclComm_t,
        config: *mut ncclConfig_t,
        shrinkFlags: c_int,
    ) -> ncclResult_t = |state| {
        newcomm.needed()?;
        config.source().optional_header()?;
        let parent = parent(state, comm)?;
        if shrinkFlags & !NCCL_SHRINK_ABORT != 0 {
            return Err(Refusal::argument(format!("{shrinkFlags} is no way to shrink")));
        }
        // SAFETY: the caller keeps NCCL's contract: there are as many ranks.
        let excluded = unsafe { excludeRanksList.source().list(excludeRanksCount) };
        let mut excluded = excluded.unwrap_or_default();
        excluded.sort_unstable();
        excluded.dedup();
        if excluded.is_empty() {
            return Err(Refusal::argument("no rank is excluded"));
        }
        excluded.iter().try_for_each(|rank| parent.has_rank(*rank))?;
        if excluded.contains(&parent.rank) {
            return Err(Refusal::argument(format!("{} excludes itself", parent.rank)));
        }
        if let Some(member) = state.moving(comm) {
            let excluded: Vec<usize> = excluded.iter().map(|rank| *rank as usize).collect();
            let aborts = shrinkFlags & NCCL_SHRINK_ABORT != 0;
            return moves::later(move || {
                newcomm.put(meet(moves::shrink(&member, &excluded, aborts)?, true))
            });
        }
        let before = excluded.iter().filter(|rank| **rank < parent.rank).count() as c_int;
        let count = parent.count - excluded.len() as c_int;
        let child = Communicator::new(parent.rank - before, count, parent.device);
        newcomm.put(state.enter(Communicator { has_signals: is_eager(config), ..child }))
    };

    answer fn ncclCommGetUniqueId(
        comm: ncclComm_t,
        uniqueId: *mut ncclUniqueId,
    ) -> ncclResult_t = |state| {
        state.ready(comm)?;
        uniqueId.put(id(state))
    };

    answer fn ncclCommGrow(
        comm: ncclComm_t,
        nRanks: c_int,
        uniqueId: *const ncclUniqueId [1],
        rank: c_int,
        newcomm: *mut ncclComm_t,
        config: *mut ncclConfig_t,
    ) -> ncclResult_t = |state| {
        newcomm.needed()?;
        config.source().optional_header()?;
        if comm.is_null() {
            let id = uniqueId.get();
            let id = id.ok_or_else(|| Refusal::argument("a new rank needs an id"))?;
            return join(state, newcomm, nRanks, &[id], rank, None);
        }
        let parent = parent(state, comm)?;
        if rank != -1 {
            return Err(Refusal::argument(format!("a member has the rank -1, not {rank}")));
        }
        if nRanks <= parent.count {
            let words = format!("{nRanks} ranks are not more than {}", parent.count);
            return Err(Refusal::argument(words));
        }
        newcomm.put(state.enter(Communicator::new(parent.rank, nRanks, parent.device)))
    };

    answer fn ncclCommFinalize(comm: ncclComm_t) -> ncclResult_t = |state| {
        if comm.is_null() {
            return Ok(());
        }
        let found = state.live(comm)?;
        if found.finalized {
            return Err(Refusal::usage("it is finalized already"));
        }
        found.finalized = true;
        let meets = state.at_least(MEETS);
        match state.moving(comm).filter(|_| meets) {
            Some(member) => moves::later(move || {
                member.finalize();
                Ok(())
            }),
            None => Ok(()),
        }
    };

    answer fn ncclCommDestroy(comm: ncclComm_t) -> ncclResult_t = |state| leave(state, comm, false);

    answer fn ncclCommAbort(comm: ncclComm_t) -> ncclResult_t = |state| leave(state, comm, true);

    answer fn ncclCommRevoke(comm: ncclComm_t, revokeFlags: c_int) -> ncclResult_t = |state| {
        if comm.is_null() {
            return Ok(());
        }
        if revokeFlags != NCCL_REVOKE_DEFAULT {
            return Err(Refusal::argument(format!("{revokeFlags} is no way to revoke")));
        }
        if std::mem::replace(&mut state.live(comm)?.revoked, true) {
            return Err(Refusal::argument("it is revoked already"));
        }
        let Some(member) = state.moving(comm) else { return Ok(()) };
        moves::later(move || {
            member.revoke();
            Ok(())
        })
    };

    answer fn ncclCommSuspend(comm: ncclComm_t, flags: c_int) -> ncclResult_t = |state| {
        if flags != NCCL_SUSPEND_MEM {
            return Err(Refusal::argument(format!("{flags} is nothing to suspend")));
        }
        state.ready(comm)?;
        shift(state, comm, true)
    };

    answer fn ncclCommResume(comm: ncclComm_t) -> ncclResult_t = |state| {
        if !state.live(comm)?.suspended {
            return Err(Refusal::usage("it is not suspended"));
        }
        shift(state, comm, false)
    };

    answer fn ncclCommMemStats(
        comm: ncclComm_t,
        stat: ncclCommMemStat_t,
        value: *mut u64,
    ) -> ncclResult_t = |state| {
        let suspended = state.live(comm)?.suspended;
        match stat {
            ncclCommMemStat_t::ncclStatGpuMemSuspended => value.put(suspended.into()),
            // Suspended memory counts too.
            ncclCommMemStat_t::ncclStatGpuMemSuspend => value.put(SUSPENDABLE),
            ncclCommMemStat_t::ncclStatGpuMemPersist => value.put(PERSISTENT),
            ncclCommMemStat_t::ncclStatGpuMemTotal => value.put(SUSPENDABLE + PERSISTENT),
            stat => Err(Refusal::argument(format!("{stat:?} is not told"))),
        }
    };

    answer fn ncclCommGetAsyncError(
        comm: ncclComm_t,
        asyncError: *mut ncclResult_t,
    ) -> ncclResult_t = |state| {
        let found = state.live(comm)?;
        if found.in_progress == 0 {
            let asynchronous = found.asynchronous;
            state.arrived(comm.address())?;
            return asyncError.put(asynchronous);
        }
        found.in_progress -= 1;
        asyncError.put(ncclResult_t::ncclInProgress)
    };

    answer fn ncclCommCount(comm: ncclComm_t, count: *mut c_int) -> ncclResult_t =
        |state| count.put(state.at_rest(comm)?.count);

    answer fn ncclCommCuDevice(comm: ncclComm_t, device: *mut c_int) -> ncclResult_t =
        |state| device.put(state.at_rest(comm)?.device);

    answer fn ncclCommUserRank(comm: ncclComm_t, rank: *mut c_int) -> ncclResult_t =
        |state| rank.put(state.at_rest(comm)?.rank);
}

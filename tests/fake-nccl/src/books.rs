//! The books: the objects behind handles, and whether they still exist.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use nccl_sys::{
    NCCL_UNIQUE_ID_BYTES, Version, ncclComm, ncclDataType_t, ncclRedOp_t, ncclResult_t,
    ncclUniqueId, ncclWindow_t, ncclWindow_vidmem,
};

use crate::freeing;
use crate::moves::{self, Member, Operation, Reach};
use crate::pointer::Place;
use crate::state::{Answer, Refusal, State};

/// How often a non-blocking communicator reports progress, after each call.
const IN_PROGRESS: usize = 3;

/// A communicator, as one rank has it.
#[derive(Clone, Copy)]
pub(crate) struct Communicator {
    pub(crate) rank: c_int,
    /// The id that the ranks share; `None` for a child.
    pub(crate) id: Option<[u8; NCCL_UNIQUE_ID_BYTES]>,
    pub(crate) count: c_int,
    pub(crate) device: c_int,
    /// The device of the double of CUDA on which it is, or -1.
    pub(crate) gpu: c_int,
    pub(crate) asynchronous: ncclResult_t,
    pub(crate) finalized: bool,
    pub(crate) revoked: bool,
    pub(crate) suspended: bool,
    /// Whether its calls block until they are over.
    pub(crate) blocks: bool,
    /// How often it still reports progress.
    pub(crate) in_progress: usize,
    /// Whether signals are set up.
    pub(crate) has_signals: bool,
    /// Device communicators that were made and not destroyed.
    pub(crate) on_device: usize,
    /// How many were ever made.
    pub(crate) made_on_device: usize,
}

impl Communicator {
    pub(crate) fn new(rank: c_int, count: c_int, device: c_int) -> Self {
        Self {
            rank,
            id: None,
            count,
            device,
            gpu: freeing::current(),
            asynchronous: ncclResult_t::ncclSuccess,
            finalized: false,
            revoked: false,
            suspended: false,
            blocks: true,
            in_progress: 0,
            has_signals: false,
            on_device: 0,
            made_on_device: 0,
        }
    }

    /// Refuses a number that is not a rank.
    pub(crate) fn has_rank(&self, rank: c_int) -> Result<(), Refusal> {
        if (0..self.count).contains(&rank) {
            return Ok(());
        }
        Err(Refusal::argument(format!("{rank} is none of the {} ranks", self.count)))
    }
}

/// Registered memory.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    pub(crate) comm: usize,
    pub(crate) memory: usize,
    pub(crate) size: usize,
}

/// A reduction operator that was made.
#[derive(Clone, Copy)]
pub(crate) struct Operator {
    pub(crate) comm: usize,
    pub(crate) datatype: ncclDataType_t,
    pub(crate) operation: Operation,
}

/// The ids of one communicator, and how many ranks it has.
pub(crate) type List = (Vec<ncclUniqueId>, c_int);

impl State {
    /// Takes a rank's seat in a communicator of this size, by ids that belong to no other
    /// communicator. Ranks with different lists do not find each other in NCCL.
    pub(crate) fn seat(&mut self, ids: &[ncclUniqueId], rank: c_int, count: c_int) -> Answer {
        let mut distinct: Vec<_> = ids.iter().map(|id| id.to_bytes()).collect();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < ids.len() {
            return Err(Refusal::usage("an id is there twice"));
        }
        for id in &distinct {
            let (known, size) = self.lists.entry(*id).or_insert_with(|| (ids.to_vec(), count));
            if known != ids || *size != count {
                let words = "the ids have been used in another list, or for other numbers of ranks";
                return Err(Refusal::usage(words));
            }
        }
        match self.seats.insert((ids[0].to_bytes(), rank)) {
            true => Ok(()),
            false => Err(Refusal::usage(format!("the id has been used for rank {rank} before"))),
        }
    }

    /// A communicator that is not freed and belongs to this library.
    pub(crate) fn live(&mut self, comm: Place<ncclComm>) -> Result<&mut Communicator, Refusal> {
        let address = comm.address();
        let found = self.communicators.get_mut(&address);
        found.ok_or_else(|| {
            Refusal::argument(format!("{address:#x} is no communicator of this library"))
        })
    }

    /// A communicator that can run operations.
    pub(crate) fn ready(&mut self, comm: Place<ncclComm>) -> Result<Communicator, Refusal> {
        let found = *self.live(comm)?;
        let state = match found {
            Communicator { finalized: true, .. } => "finalized",
            Communicator { revoked: true, .. } => "revoked",
            Communicator { suspended: true, .. } => "suspended",
            Communicator { in_progress: 1.., .. } => "in progress",
            _ => return Ok(found),
        };
        Err(Refusal::usage(format!("the communicator {:#x} is {state}", comm.address())))
    }

    /// Refuses a signal before signals are set up, with the first symmetric window.
    pub(crate) fn has_signals(&self, found: Communicator) -> Answer {
        let since = Version::new(2, 31, 2);
        if found.has_signals || moves::are_on() || !self.at_least(since) {
            return Ok(());
        }
        Err(Refusal::usage("there is no symmetric window, and no rmaEagerInit"))
    }

    /// Adds a communicator to the books.
    pub(crate) fn enter(&mut self, communicator: Communicator) -> *mut ncclComm {
        let handle = self.handle();
        self.communicators.insert(handle, communicator);
        self.goes_on(handle);
        std::ptr::without_provenance_mut(handle)
    }

    /// A communicator that is not in progress, in whatever state otherwise.
    pub(crate) fn at_rest(&mut self, comm: Place<ncclComm>) -> Result<Communicator, Refusal> {
        let found = *self.live(comm)?;
        match found.in_progress {
            0 => Ok(found),
            _ => {
                let words = format!("the communicator {:#x} is in progress", comm.address());
                Err(Refusal::argument(words))
            }
        }
    }

    /// On a non-blocking communicator, a call of this thread continues after it has returned; in a
    /// group, after the group's end.
    pub(crate) fn goes_on(&mut self, comm: usize) {
        if self.communicators.get(&comm).is_some_and(|found| !found.blocks) {
            self.thread().going_on.push(comm);
        }
    }

    /// Whether something continues after this call returns.
    pub(crate) fn went_on(&mut self) -> bool {
        if self.thread().groups > 0 {
            return false;
        }
        let going_on = std::mem::take(&mut self.thread().going_on);
        for comm in &going_on {
            if let Some(found) = self.communicators.get_mut(comm) {
                found.in_progress = IN_PROGRESS;
            }
        }
        !going_on.is_empty()
    }

    /// Delivers a window to its caller: later, if the communicator does not block.
    pub(crate) fn arrives(
        &mut self,
        comm: Place<ncclComm>,
        place: Place<ncclWindow_t>,
        window: usize,
    ) -> Answer {
        if self.live(comm)?.blocks {
            return place.put(std::ptr::without_provenance_mut(window));
        }
        self.arriving.push((comm.address(), place, window));
        place.put(std::ptr::null_mut())
    }

    /// A communicator has finished: delivers its windows.
    pub(crate) fn arrived(&mut self, comm: usize) -> Answer {
        self.arriving
            .extract_if(.., |(owner, ..)| *owner == comm)
            .try_for_each(|(_, place, window)| place.put(std::ptr::without_provenance_mut(window)))
    }

    /// The rank behind a communicator, if data moves.
    pub(crate) fn moving(&self, comm: Place<ncclComm>) -> Option<Arc<Member>> {
        self.members.get(&comm.address()).cloned()
    }

    /// The memory that a window reaches, if data moves.
    pub(crate) fn reach(&self, comm: usize, window: usize) -> Option<Arc<Reach>> {
        self.members.get(&comm)?.window(window)
    }

    /// Removes a communicator, and everything registered with it.
    pub(crate) fn leave(&mut self, comm: Place<ncclComm>) -> Result<(), Refusal> {
        self.live(comm)?;
        let comm = comm.address();
        self.communicators.remove(&comm);
        self.members.remove(&comm);
        self.registrations.retain(|_, registration| registration.comm != comm);
        self.windows.retain(|_, window| window.comm != comm);
        self.device_comms.retain(|_, owner| *owner != comm);
        self.operators.retain(|_, operator| operator.comm != comm);
        self.arriving.retain(|(owner, ..)| *owner != comm);
        Ok(())
    }

    /// A registered window.
    pub(crate) fn window(&self, window: Place<ncclWindow_vidmem>) -> Result<Window, Refusal> {
        let address = window.address();
        let found = self.windows.get(&address).copied();
        found.ok_or_else(|| Refusal::argument(format!("{address:#x} is no window of this library")))
    }

    /// A registered window of this communicator.
    pub(crate) fn window_of(
        &mut self,
        comm: Place<ncclComm>,
        window: Place<ncclWindow_vidmem>,
    ) -> Result<Window, Refusal> {
        self.live(comm)?;
        let found = self.window(window)?;
        if found.comm != comm.address() {
            return Err(Refusal::argument(format!(
                "the window {:#x} is of the communicator {:#x}, not of {:#x}",
                window.address(),
                found.comm,
                comm.address()
            )));
        }
        Ok(found)
    }

    /// Refuses an element type that this release lacks.
    pub(crate) fn datatype(&self, datatype: ncclDataType_t) -> Result<(), Refusal> {
        let known = |since| self.at_least(since);
        let mut values = ncclDataType_t::VALUES.iter();
        if datatype != ncclDataType_t::ncclNumTypes
            && values.any(|(_, value, since)| *value == datatype && known(*since))
        {
            return Ok(());
        }
        Err(Refusal::argument(format!("{datatype:?} is no element type")))
    }

    /// An operator's function; a refusal if it is neither built in nor made for this communicator
    /// and type.
    pub(crate) fn operator(
        &self,
        comm: Place<ncclComm>,
        datatype: ncclDataType_t,
        op: ncclRedOp_t,
    ) -> Result<Operation, Refusal> {
        if (0..ncclRedOp_t::ncclNumOps.0).contains(&op.0) {
            return Ok(Operation::BuiltIn(op));
        }
        match self.operators.get(&op.0) {
            Some(made) if made.comm == comm.address() && made.datatype == datatype => {
                Ok(made.operation)
            }
            Some(_) => Err(Refusal::argument(format!("{op:?} is of another communicator or type"))),
            None => Err(Refusal::argument(format!("{op:?} is no operator"))),
        }
    }
}

/// An address as a pointer to return. Nothing is read from it here.
pub(crate) fn pointer(address: usize) -> *mut c_void {
    std::ptr::with_exposed_provenance_mut(address)
}

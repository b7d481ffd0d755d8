//! Barriers of device communicators, at which closures of all ranks wait for each other.
//!
//! Like every closure, one that waits occupies its own worker. It records that its stream is at the
//! barrier, so that a wait for the stream detects a deadlock and a timeout names the missing ranks.
//! Launches record their device communicators, so that a rank whose closure is still queued does
//! not count as absent.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{Thread, ThreadId};
use std::time::Duration;

use typed_nccl_match::Clock;

use super::comm::{CommState, MemberId};
use super::deadlock::Gathering;
use super::remote::Event;
use super::report::some;
use super::spin::SPIN;
use super::state::{Out, State};
use super::stream::{Current, Progress, StreamState, Task};
use super::{Engine, Here};
use crate::backend::WindowId;
use crate::error::{Error, Site};
use crate::host::moves::Held;
use crate::host::shared;
use crate::quiet;
use crate::{Rank, Result};

/// How long a closure sleeps before it checks its communicator again.
const REST: Duration = Duration::from_millis(2);

/// A device communicator of one rank.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(in crate::host) struct Brings {
    pub(super) place: MemberId,
    pub(super) dev: WindowId,
}

impl Brings {
    pub(in crate::host) fn new(place: MemberId, dev: WindowId) -> Self {
        Self { place, dev }
    }
}

/// A barrier at which a stream's closure waits.
#[derive(Clone, Debug)]
pub(super) struct At {
    pub(super) of: Brings,
    pub(super) index: usize,
    /// The number of the round.
    turn: u64,
    /// The operating system's number of its thread.
    pub(super) thread: Option<u32>,
}

impl At {
    /// The round that all waiting ranks share.
    pub(super) fn gathering(&self) -> Gathering {
        let Self { of: Brings { place, dev }, index, turn, .. } = *self;
        Gathering::Barrier { comm: place.comm, dev, index, turn }
    }
}

/// One barrier.
#[derive(Default)]
pub(super) struct Bar {
    /// How many rounds each rank has reached.
    arrived: Vec<u64>,
    /// How many ranks have reached a round that is not complete.
    ahead: usize,
    /// How many rounds are complete.
    passed: Arc<AtomicU64>,
    waiting: HashMap<ThreadId, Thread>,
    /// What the ranks that arrived know, if the order of uses is checked. What they know of later
    /// rounds is added too, which hides mistakes and invents none.
    order: Clock,
}

impl Bar {
    /// Records a rank's arrival. Returns its round, and whether that completed it.
    fn arrive(&mut self, rank: usize) -> (u64, bool) {
        let passed = self.passed.load(Ordering::Relaxed);
        self.ahead += usize::from(self.arrived[rank] == passed);
        self.arrived[rank] += 1;
        let all = self.ahead == self.arrived.len();
        if all {
            // Pairs with the acquire of the waiting ranks: they see everything done before.
            self.passed.store(passed + 1, Ordering::Release);
            self.ahead = self.arrived.iter().filter(|arrived| **arrived > passed + 1).count();
        }
        (self.arrived[rank], all)
    }
}

/// The barriers of a device communicator, shared by its ranks. Only barriers in use take memory,
/// however many were required.
pub(super) type DeviceComm = HashMap<usize, Bar>;

thread_local! {
    /// The device communicators of this thread's next launch.
    static NEXT: RefCell<Vec<Brings>> = const { RefCell::new(Vec::new()) };
    /// The stream whose closure this thread runs.
    static CURRENT: RefCell<Option<Arc<Progress>>> = const { RefCell::new(None) };
}

/// Adds a device communicator to this thread's next launch.
pub(in crate::host) fn announce(brings: Brings) {
    NEXT.with_borrow_mut(|next| next.push(brings));
}

/// Takes the device communicators of this launch.
pub(super) fn announced() -> Vec<Brings> {
    NEXT.take()
}

/// Runs a stream's closure.
pub(super) fn in_closure<T>(stream: Arc<Progress>, run: impl FnOnce() -> T) -> T {
    let outer = CURRENT.replace(Some(stream));
    let outcome = run();
    CURRENT.set(outer);
    outcome
}

/// The stream whose closure this thread runs.
pub(in crate::host) fn current() -> Option<Arc<Progress>> {
    CURRENT.with_borrow(Clone::clone)
}

impl Engine {
    /// Creates a rank's part of a device communicator.
    pub(in crate::host) fn make_device_comm(&self, of: Brings) {
        let mut state = self.lock();
        if let Some(comm) = state.comm(of.place) {
            comm.device_comms.entry(of.dev).or_default();
        }
    }

    /// Removes a device communicator that nothing uses any more.
    pub(in crate::host) fn unmake_device_comm(&self, of: Brings) {
        let mut state = self.lock();
        let gone = state.comm(of.place).and_then(|comm| comm.device_comms.remove(&of.dev));
        drop(state);
        drop(gone);
    }

    /// Fails if the communicator has broken.
    pub(in crate::host) fn is_well(&self, place: MemberId) -> Result<()> {
        let mut state = self.lock();
        match state.comm(place) {
            Some(comm) if !comm.broken => Ok(()),
            _ => Err(state.fault_of(place)),
        }
    }

    /// Every rank's part of a window.
    pub(in crate::host) fn parts(&self, place: MemberId, window: WindowId) -> Option<Vec<Held>> {
        // Other processes have said where their parts are before all ranks had registered them.
        self.hear(Here::Nothing);
        let mut state = self.lock();
        state.comm(place)?.windows.get(&window)?.all()
    }

    /// Called by a closure at a barrier: waits for the closures of all other ranks.
    pub(in crate::host) fn sync(&self, of: Brings, index: usize) -> Result<()> {
        let own = current();
        let own = own.as_deref();
        let waits = self.change(Here::Nothing, |state, out| {
            let Some((turn, passed)) = state.arrive(of, index, own, out) else {
                return Err(state.fault_of(of.place));
            };
            state.say(of.place, &Event::Arrived(of.dev, index));
            if passed.load(Ordering::Acquire) >= turn {
                state.pass(of, index, own);
                return Ok(None);
            }
            let at = At { of, index, turn, thread: quiet::this_thread() };
            state.set_at(own, Some(at));
            state.check_barriers(of.place, out);
            Ok(Some((turn, passed)))
        })?;
        let Some((turn, passed)) = waits else { return Ok(()) };
        let outcome = self.stand(of, index, || passed.load(Ordering::Acquire) >= turn);
        self.change(Here::Nothing, |state, _| {
            state.set_at(own, None);
            if outcome.is_ok() {
                state.pass(of, index, own);
            }
        });
        outcome
    }

    fn stand(&self, of: Brings, index: usize, is_over: impl Fn() -> bool) -> Result<()> {
        let hear = || self.hear(Here::Nothing);
        if self.busy_threads.spin((SPIN, SPIN), hear, &is_over) {
            return Ok(());
        }
        let _waiting = shared::Waiting::begin();
        self.hear(Here::Nothing);
        while !is_over() {
            let mut state = self.lock();
            match state.comm(of.place) {
                Some(comm) if !comm.broken => {
                    if let Some(bar) = comm.bar(of.dev, index)
                        && !is_over()
                    {
                        let me = std::thread::current();
                        bar.waiting.insert(me.id(), me);
                    }
                }
                _ => return Err(state.fault_of(of.place)),
            }
            drop(state);
            std::thread::park_timeout(REST);
        }
        Ok(())
    }
}

impl CommState {
    fn bar(&mut self, dev: WindowId, index: usize) -> Option<&mut Bar> {
        self.device_comms.get_mut(&dev)?.get_mut(&index)
    }

    /// The ranks that have not reached this round.
    pub(super) fn missing(&self, at: &At) -> Vec<usize> {
        let bar = self.device_comms.get(&at.of.dev).and_then(|bars| bars.get(&at.index));
        let late = |(_, arrived): &(usize, &u64)| **arrived < at.turn;
        let late =
            |bar: &Bar| bar.arrived.iter().enumerate().filter(late).map(|(rank, _)| rank).collect();
        bar.map_or_else(Vec::new, late)
    }
}

impl StreamState {
    /// The device communicators that its running and queued closures use.
    fn brings(&self) -> impl Iterator<Item = &Brings> {
        let running = match &self.current {
            Some(Current::Launch { brings, .. }) => Some(brings),
            _ => None,
        };
        let queued = self.queue.iter().filter_map(|task| match task {
            Task::Launch { brings, .. } => Some(brings),
            _ => None,
        });
        running.into_iter().chain(queued).flatten()
    }
}

impl State {
    /// Records a rank's arrival. Returns its round, and the counter of complete rounds.
    pub(super) fn arrive(
        &mut self,
        of: Brings,
        index: usize,
        own: Option<&Progress>,
        out: &mut Out,
    ) -> Option<(u64, Arc<AtomicU64>)> {
        let comm = self.comm(of.place).filter(|comm| !comm.broken)?;
        let size = comm.size();
        let dev = comm.device_comms.get_mut(&of.dev)?;
        let new = || Bar { arrived: vec![0; size], ..Bar::default() };
        let bar = dev.entry(index).or_insert_with(new);
        if let Some(own) = own.and_then(Progress::order) {
            own.clock(|own| bar.order.join_arrived(own));
        }
        let (turn, all) = bar.arrive(of.place.rank);
        if all {
            bar.waiting.drain().for_each(|(_, thread)| out.unpark.push(thread));
            let copies = comm.remote.iter().flat_map(|remote| remote.copies());
            for copy in copies.filter_map(Progress::order) {
                copy.clock(|own| own.join(&bar.order));
            }
        }
        Some((turn, bar.passed.clone()))
    }

    /// A rank passes a barrier: what the others did before is ordered before what it does next.
    fn pass(&mut self, of: Brings, index: usize, own: Option<&Progress>) {
        let bar = self.comm(of.place).and_then(|comm| comm.bar(of.dev, index));
        if let (Some(bar), Some(own)) = (bar, own.and_then(Progress::order)) {
            own.clock(|own| own.join(&bar.order));
        }
    }

    /// Why no other rank comes to this rank's barriers any more.
    fn fault_of(&self, place: MemberId) -> Error {
        let member = self.seen_member(place);
        let health = member.and_then(|member| member.health.as_ref());
        let own = health.and_then(|health| health.check().err());
        let fault = own.or_else(|| member.and_then(|member| member.fault.clone()));
        fault.or_else(|| Some(health?.ended())).unwrap_or_else(|| {
            Error::other("a barrier of a communicator that has ended".to_owned())
        })
    }

    fn set_at(&mut self, own: Option<&Progress>, to: Option<At>) {
        if let Some(Current::Launch { at, .. }) =
            own.and_then(|own| self.streams.get_mut(own.key)?.current.as_mut())
        {
            *at = to;
        }
    }

    /// The device communicators of a stream's current closure.
    pub(super) fn brought(&mut self, stream: usize) -> Vec<Brings> {
        match self.streams.get_mut(stream).and_then(|stream| stream.current.as_mut()) {
            Some(Current::Launch { brings, .. }) => std::mem::take(brings),
            _ => Vec::new(),
        }
    }

    /// The closures that wait at barriers.
    pub(super) fn at_barriers(&self) -> impl Iterator<Item = &At> {
        self.streams.iter().filter_map(|(_, stream)| match &stream.current {
            Some(Current::Launch { at, .. }) => at.as_ref(),
            _ => None,
        })
    }

    /// Whether queued or running closures use a device communicator of this rank.
    pub(super) fn has_kernels(&self, place: MemberId) -> bool {
        self.all_brings().any(|(_, brings)| brings.place == place)
    }

    /// The device communicators that closures use, each with the stream.
    fn all_brings(&self) -> impl Iterator<Item = (usize, &Brings)> {
        self.streams.iter().flat_map(|(key, stream)| stream.brings().map(move |of| (key, of)))
    }

    /// Whether a closure comes to the barriers of a device communicator.
    fn is_coming(&self, of: Brings) -> bool {
        self.all_brings().any(|(_, brings)| *brings == of)
    }

    /// Wakes the closures that wait at barriers of a broken communicator.
    pub(super) fn leave_barriers(&mut self, place: MemberId, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let bars = comm.device_comms.values_mut().flat_map(HashMap::values_mut);
        bars.flat_map(|bar| bar.waiting.drain()).for_each(|(_, thread)| out.unpark.push(thread));
    }

    /// Ends the communicator if a closure waits for a rank that left and has no closure queued.
    pub(super) fn check_barriers(&mut self, place: MemberId, out: &mut Out) {
        let may_wait =
            |comm: &CommState| comm.gone > 0 && !comm.broken && !comm.device_comms.is_empty();
        if !self.seen_comm(place).is_some_and(may_wait) {
            return;
        }
        let lost = self.at_barriers().filter(|at| at.of.place.id == place.id).find_map(|at| {
            let comm = self.seen_comm(place)?;
            let lost = |rank: &usize| {
                let of = Brings { place: place.of(*rank), ..at.of };
                comm.members[*rank].gone.is_some() && !self.is_coming(of)
            };
            let lost: Vec<usize> = comm.missing(at).into_iter().filter(lost).collect();
            (!lost.is_empty()).then_some((lost, at.index))
        });
        if let Some((lost, index)) = lost {
            self.lose(place, lost, &format!("LSA barrier {index} of a device communicator"), out);
        }
    }

    /// For each device communicator the stream whose closures use it, or `None` for several
    /// streams.
    pub(super) fn coming(&self) -> HashMap<Brings, Option<usize>> {
        let mut coming: HashMap<Brings, Option<usize>> = HashMap::new();
        for (key, brings) in self.all_brings() {
            let known = coming.entry(*brings).or_insert(Some(key));
            if *known != Some(key) {
                *known = None;
            }
        }
        coming
    }

    /// Describes what a closure at a barrier waits for.
    pub(super) fn tell_barrier(&self, at: &At, site: Site) -> Option<String> {
        let comm = self.seen_comm(at.of.place)?;
        let (name, index, missing) = (comm.name, at.index, comm.missing(at));
        let mut words = format!(
            "the closure launched at {site} waits at LSA barrier {index} of a device communicator of {name}; arrived:"
        );
        let is_late = |rank: &usize| missing.binary_search(rank).is_ok();
        some(&mut words, (0..comm.size()).filter(|rank| !is_late(rank)), |rank| format!(" {rank}"));
        some(&mut words, missing.iter().copied(), |rank| {
            let of = Brings { place: at.of.place.of(rank), ..at.of };
            let does = match self.is_coming(of) {
                true => "has a closure that has not come to it",
                false => "has launched no closure that comes to it",
            };
            format!("; rank {} {does}", Rank::at(rank))
        });
        Some(words)
    }
}

//! One rank of a communicator, for the code that moves data.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ffi::c_int;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError, Weak};

use super::end::Hold;
use super::life::Terms;
use super::room::Room;
use super::window::Reach;

/// One rank.
pub(crate) struct Member {
    pub(crate) room: Room,
    pub(crate) device: c_int,
    pub(crate) context: usize,
    /// Whether all ranks are on one host and reach each other's memory.
    pub(crate) one_host: bool,
    /// Whether its children share its resources.
    pub(crate) split_share: bool,
    /// Common to all communicators that share their resources.
    life: Arc<Life>,
    state: Mutex<State>,
}

/// The life of communicators that share their resources.
#[derive(Default)]
pub(crate) struct Life {
    /// Whether kernels must end and threads must return.
    over: AtomicBool,
    members: Mutex<Vec<Weak<Member>>>,
}

#[derive(Default)]
struct State {
    /// How many tickets were issued.
    given: u64,
    /// Unfinished kernels and waits for signals, by ticket.
    under_way: BTreeSet<u64>,
    /// How many waits for signals are unfinished.
    waits: usize,
    /// How many of each kind there were, to pair the ranks' calls.
    counts: HashMap<Counted, u64>,
    /// The connections made so far.
    connected: HashSet<Link>,
    /// Signals already awaited, by peer, context and number.
    consumed: HashMap<(usize, usize, usize), u32>,
    windows: HashMap<usize, Arc<Reach>>,
}

/// The kinds that ranks count.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum Counted {
    Collective,
    SendTo(usize),
    RecvFrom(usize),
    Child,
    /// A child without these ranks, whose calls the others do not count.
    Without(Vec<usize>),
    Window,
    Barrier,
}

/// A connection that is made before first use.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Link {
    Collectives,
    Signals,
}

/// An operation in progress, until it is dropped.
pub(crate) struct Ticket {
    member: Arc<Member>,
    number: u64,
    /// Whether it waits for signals.
    waits: bool,
}

/// The ranks of one communicator in this process.
#[derive(Default)]
struct Family {
    alive: usize,
    members: Vec<Weak<Member>>,
}

impl Family {
    /// Frees the ranks' memory. A kernel of a rank that shares its device with another one still
    /// writes into the other's as it stops: a fault, which ends the process here.
    fn frees(&self) {
        let members: Vec<_> = self.members.iter().filter_map(Weak::upgrade).collect();
        let devices: HashSet<_> = members.iter().map(|member| member.device).collect();
        let at_work: Vec<_> =
            members.iter().filter(|member| member.has_kernels()).map(|m| m.room.rank).collect();
        if devices.len() < members.len() && !at_work.is_empty() {
            eprintln!("kernels of ranks {at_work:?} write into memory that an abort has freed");
            std::process::abort();
        }
    }
}

/// By room.
static HERE: LazyLock<Mutex<HashMap<PathBuf, Family>>> = LazyLock::new(Mutex::default);

fn here() -> MutexGuard<'static, HashMap<PathBuf, Family>> {
    HERE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Member {
    pub(crate) fn new(
        room: Room,
        (device, context): (c_int, usize),
        (one_host, split_share): (bool, bool),
        life: Arc<Life>,
    ) -> Arc<Self> {
        let (state, path) = (Mutex::default(), room.path.clone());
        let member = Self { room, device, context, one_host, split_share, life, state };
        let member = Arc::new(member);
        member.life.members().push(Arc::downgrade(&member));
        let mut here = here();
        let family = here.entry(path).or_default();
        family.alive += 1;
        family.members.push(Arc::downgrade(&member));
        member
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether kernels must end.
    pub(crate) fn is_over(&self) -> bool {
        self.life.over.load(Acquire)
    }

    /// The life of a child: its own, or this one's.
    pub(crate) fn childs_life(&self) -> Arc<Life> {
        if self.split_share { self.life.clone() } else { Arc::default() }
    }

    /// The configuration of a child without its own.
    pub(crate) fn terms(&self) -> Terms {
        Terms { slots: self.room.slots(), split_share: self.split_share, blocks: true }
    }

    /// Whether operations are in progress.
    pub(crate) fn is_busy(&self) -> bool {
        !self.state().under_way.is_empty()
    }

    /// Whether kernels are in progress.
    fn has_kernels(&self) -> bool {
        let state = self.state();
        state.under_way.len() > state.waits
    }

    /// Whether other communicators share its resources.
    pub(crate) fn shares(&self) -> bool {
        self.life.members().iter().filter(|member| member.strong_count() > 0).count() > 1
    }

    /// Polls until there is a result; `None` if the communicator is over first.
    pub(crate) fn wait<T>(&self, mut look: impl FnMut() -> Option<T>) -> Option<T> {
        self.room.wait(|| match look() {
            Some(found) => Some(Some(found)),
            None => self.is_over().then_some(None),
        })
    }

    /// Ends kernels and calls that wait for other ranks.
    fn stop(&self) {
        self.life.over.store(true, Release);
        let members: Vec<_> = self.life.members().iter().filter_map(Weak::upgrade).collect();
        members.iter().for_each(|member| member.room.ring(member.room.rank));
    }

    /// Waits for streams that wait for a signal, which `stop` does not end.
    fn settle(&self) {
        self.room.wait(|| (self.state().waits == 0).then_some(()));
    }

    /// Frees a thread, and ends kernels.
    pub(crate) fn revoke(&self) {
        let _hold = Hold::new();
        self.stop();
        self.settle();
    }

    /// Waits for the ranks of the host.
    pub(crate) fn finalize(&self) {
        if self.one_host {
            self.room.ends();
            self.room.all_end();
        }
    }

    /// Ends this rank. The last one of the process frees memory, for which the driver waits until
    /// the devices are idle. With `meets`, it waits for the ranks of the host's other processes
    /// first.
    pub(crate) fn end(&self, aborts: bool, meets: bool, free: impl FnOnce()) {
        let _hold = Hold::new();
        let mut here = here();
        let last = here.get_mut(&self.room.path).is_some_and(|family| {
            family.alive -= 1;
            family.alive == 0
        });
        let family = if last { here.remove(&self.room.path) } else { None };
        drop(here);
        if meets && self.one_host && !aborts {
            self.room.ends();
            if last {
                self.room.all_end();
            }
        }
        free();
        if aborts {
            family.iter().for_each(Family::frees);
            self.stop();
        }
        self.room.leave();
        let members = family.map(|family| family.members).unwrap_or_default();
        members.iter().filter_map(Weak::upgrade).for_each(|member| member.settle());
    }

    /// The number of the next of its kind.
    pub(crate) fn count(&self, what: Counted) -> u64 {
        let mut state = self.state();
        let count = state.counts.entry(what).or_default();
        *count += 1;
        *count - 1
    }

    /// Whether this connection must be made now.
    pub(crate) fn connects(&self, link: Link) -> bool {
        self.state().connected.insert(link)
    }

    /// A ticket: a place in the order of the communicator.
    pub(crate) fn ticket(self: &Arc<Self>, waits: bool) -> Ticket {
        let mut state = self.state();
        state.given += 1;
        state.waits += usize::from(waits);
        let number = state.given;
        state.under_way.insert(number);
        Ticket { member: self.clone(), number, waits }
    }

    /// Consumes a signal if a rank has raised it as often as awaited.
    pub(crate) fn consume(&self, from: usize, context: usize, signal: usize, times: u32) -> bool {
        let raised = self.room.raised(from, self.room.rank, context, signal);
        let mut state = self.state();
        let consumed = state.consumed.entry((from, context, signal)).or_default();
        if raised.wrapping_sub(*consumed) < times {
            return false;
        }
        *consumed += times;
        true
    }

    pub(crate) fn add_window(&self, handle: usize, reach: Reach) {
        self.state().windows.insert(handle, Arc::new(reach));
    }

    pub(crate) fn remove_window(&self, handle: usize) {
        self.state().windows.remove(&handle);
    }

    pub(crate) fn window(&self, handle: usize) -> Option<Arc<Reach>> {
        self.state().windows.get(&handle).cloned()
    }

    /// Whether an address is in a symmetric window.
    pub(crate) fn is_in_window(&self, address: usize) -> bool {
        self.state().windows.values().any(|window| window.has(address))
    }
}

impl Life {
    fn members(&self) -> MutexGuard<'_, Vec<Weak<Member>>> {
        self.members.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Ticket {
    /// Waits until everything before it is over: a communicator is one queue, for all streams.
    pub(crate) fn turn(&self) -> bool {
        let is_first = || self.member.state().under_way.first() == Some(&self.number);
        self.member.wait(|| is_first().then_some(())).is_some()
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.member.state();
        state.under_way.remove(&self.number);
        state.waits -= usize::from(self.waits);
        drop(state);
        self.member.room.ring(self.member.room.rank);
    }
}

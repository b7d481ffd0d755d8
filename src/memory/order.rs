//! Stream order: which streams used an allocation, and what the next use has to wait for.
//!
//! A use on the stream that made all earlier uses costs two relaxed stores. A use on another stream
//! waits (on the device, not on the host) for the streams it conflicts with: a read for writers, a
//! write for all. It waits up to the first mark after the earlier use, or else for everything
//! enqueued there so far. A stream of which another has waited for too much marks every operation
//! from then on (decision 108). `booking` says how an operation is recorded.
//!
//! A buffer's header is reached only through `&Buffer` and its views, which are not `Sync`: one
//! thread at a time. A window's header is reached by the thread that owns the window and by the one
//! that owns its communicator, whose waits for signals count as uses; so all uses of window memory
//! are recorded under the lock. The same goes for memory that a graph names: the launching thread
//! records uses too, and the two threads' operations take turns (`turn`). A captured plan also
//! names memory, but each launch uses the memory that its thread passes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use super::turn::{Patience, Turn, Turns};
use crate::backend::Streams;
use crate::error::reported;
use crate::lock::{Mutex, MutexGuard};
use crate::stream::{Awaited, StreamCore, StreamShared};
use crate::{Result, wait};

pub(crate) struct Order<B: Streams> {
    /// The stream that made every use so far, or 0.
    sole: AtomicU64,
    /// That stream's sequence number at its last write and last use; 0 for none.
    wrote: AtomicU64,
    used: AtomicU64,
    spread: Mutex<Spread<B>>,
}

/// The slow path: the streams behind the numbers.
struct Spread<B: Streams> {
    /// The stream that `Order::sole` names.
    sole: Option<Arc<StreamShared<B>>>,
    /// Uses by several streams; empty while there is a sole one.
    uses: Vec<Use<B>>,
    /// How many windows the memory is in.
    windows: u32,
    /// Whether it was in a window of a communicator that failed.
    exposed: bool,
    /// How many graphs name it, and how many captured plans.
    graphs: u32,
    plans: u32,
    /// How often it is registered with a communicator.
    registrations: u32,
    /// Whether it is only lent to a closure.
    lent: bool,
    /// Operations about to use it, while a graph names it.
    turns: Turns,
    /// The plan whose streams use parts of it, and order these uses among themselves; or 0.
    team: u64,
}

/// A holder of memory for longer than a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Lessee {
    /// A graph. Its launcher need not own the memory.
    Graph,
    /// A captured plan. Its launcher passes the memory.
    Plan,
    /// A communicator with which it is registered.
    Registration,
}

struct Use<B: Streams> {
    stream: Arc<StreamShared<B>>,
    /// The plan that it belongs to, if that orders its streams itself; or 0.
    team: u64,
    wrote: u64,
    used: u64,
    /// Whether peers' puts wrote it: a wait for signals says that they have arrived.
    arrived: bool,
}

/// How many signal-waiting streams are kept without asking whether they have passed the wait.
const FEW: usize = 8;

impl<B: Streams> Spread<B> {
    /// Whether two threads record uses: then there is never a sole stream.
    fn is_shared(&self) -> bool {
        self.windows > 0 || self.graphs > 0
    }

    /// Takes a turn if a graph names the memory. If none does, none will before the operation is
    /// recorded: capturing needs the memory in hand.
    fn take_turn(&mut self, turn: &mut Turn, write: bool) -> Result<()> {
        match self.graphs {
            0 => Ok(()),
            _ => self.turns.take(turn, write),
        }
    }

    /// The plan for which a stream uses this memory, if that orders its streams itself; or 0.
    fn team_of(&self, stream: &StreamCore<B>) -> u64 {
        if stream.team() == self.team { self.team } else { 0 }
    }

    /// Whether a stream has to wait for an earlier use.
    fn is_awaited(&self, earlier: &Use<B>, stream: &StreamCore<B>) -> bool {
        let team = self.team_of(stream);
        earlier.stream.id() != stream.id() && (team == 0 || earlier.team != team)
    }

    fn wait_for_writes(&mut self, stream: &StreamCore<B>) -> Result<()> {
        for earlier in &self.uses {
            if earlier.wrote > 0 && self.is_awaited(earlier, stream) {
                stream.wait_for_use(&earlier.stream, earlier.wrote)?;
            }
        }
        // Later writes need not wait for reads that are over.
        self.uses.retain(|earlier| {
            let own = earlier.stream.id() == stream.id();
            own || earlier.wrote > 0 || !earlier.stream.is_past(earlier.used)
        });
        self.own(stream).used = stream.last_seq();
        Ok(())
    }

    fn wait_for_uses(&mut self, stream: &StreamCore<B>) -> Result<()> {
        for earlier in &self.uses {
            if self.is_awaited(earlier, stream) {
                stream.wait_for_use(&earlier.stream, earlier.used)?;
            }
        }
        match self.team_of(stream) {
            0 => {
                // The waits are in the stream: waiting for it up to here waits for all of them.
                self.uses.retain(|earlier| earlier.stream.id() == stream.id() && earlier.team == 0);
                self.team = 0;
            }
            // Streams of the plan that have not used it yet wait for uses before the run too.
            _ => self
                .uses
                .retain(|earlier| earlier.wrote > 0 || !earlier.stream.is_past(earlier.used)),
        }
        let seq = stream.last_seq();
        let own = self.own(stream);
        (own.wrote, own.used, own.arrived) = (seq, seq, false);
        Ok(())
    }

    fn leases(&mut self, by: Lessee) -> &mut u32 {
        match by {
            Lessee::Graph => &mut self.graphs,
            Lessee::Plan => &mut self.plans,
            Lessee::Registration => &mut self.registrations,
        }
    }

    /// The uses by a stream.
    fn own(&mut self, stream: &StreamCore<B>) -> &mut Use<B> {
        let (id, team) = (stream.id(), self.team_of(stream));
        let is_own = |known: &Use<B>| known.stream.id() == id && known.team == team;
        let at = self.uses.iter().position(is_own).unwrap_or_else(|| {
            let stream = stream.shared();
            self.uses.push(Use { stream, team, wrote: 0, used: 0, arrived: false });
            self.uses.len() - 1
        });
        &mut self.uses[at]
    }
}

impl<B: Streams> Default for Order<B> {
    fn default() -> Self {
        Self {
            sole: AtomicU64::new(0),
            wrote: AtomicU64::new(0),
            used: AtomicU64::new(0),
            spread: Mutex::new(Spread {
                sole: None,
                uses: Vec::new(),
                windows: 0,
                exposed: false,
                graphs: 0,
                plans: 0,
                registrations: 0,
                lent: false,
                turns: Turns::default(),
                team: 0,
            }),
        }
    }
}

impl<B: Streams> Order<B> {
    /// Orders the first use after `mark`, by somebody else's use of the memory.
    pub(crate) fn begin_after(&self, stream: &Arc<StreamShared<B>>, seq: u64) {
        let mut spread = self.spread();
        // 0 would mean no use.
        let (stream, seq) = (stream.clone(), seq.max(1));
        spread.uses.push(Use { stream, team: 0, wrote: seq, used: seq, arrived: false });
        self.settle(&mut spread);
    }

    /// The order of a part of the memory: its uses come after those so far of all of it.
    pub(super) fn continued(&self) -> Self {
        let part = Self::default();
        let mut spread = self.spread();
        // A plan's streams wait too: the plan may be given the parts as different operands.
        let uses = spread.uses.iter();
        let uses = uses.map(|&Use { ref stream, wrote, used, arrived, .. }| {
            let (stream, team) = (stream.clone(), 0);
            Use { stream, team, wrote, used, arrived }
        });
        let mut its = part.spread();
        its.uses.extend(uses);
        part.settle(&mut its);
        drop(its);
        self.settle(&mut spread);
        drop(spread);
        part
    }

    /// Whether `stream` made every use so far.
    #[inline]
    pub(crate) fn is_alone(&self, stream: &StreamCore<B>) -> bool {
        self.sole.load(Relaxed) == stream.id()
    }

    /// Records a read by operation `seq` of the sole stream.
    #[inline]
    pub(crate) fn read_again(&self, seq: u64) {
        self.used.store(seq, Relaxed);
    }

    /// Records a write by operation `seq` of the sole stream.
    #[inline]
    pub(crate) fn write_again(&self, seq: u64) {
        self.used.store(seq, Relaxed);
        self.wrote.store(seq, Relaxed);
    }

    /// Makes what `stream` enqueues next wait for earlier writes, or for all earlier uses, and
    /// takes a turn.
    #[inline]
    pub(super) fn wait(&self, stream: &StreamCore<B>, write: bool, turn: &mut Turn) -> Result<()> {
        match self.is_alone(stream) {
            true => Ok(()),
            false => self.wait_among(stream, write, turn),
        }
    }

    #[cold]
    fn wait_among(&self, stream: &StreamCore<B>, write: bool, turn: &mut Turn) -> Result<()> {
        let mut spread = self.spread();
        spread.take_turn(turn, write)?;
        match write {
            true => spread.wait_for_uses(stream)?,
            false => spread.wait_for_writes(stream)?,
        }
        self.settle(&mut spread);
        Ok(())
    }

    /// Records a use by operation `seq`, which is in `stream`, and ends its turn.
    #[inline]
    pub(super) fn book(&self, stream: &StreamCore<B>, seq: u64, write: bool, turn: &Turn) {
        match (self.is_alone(stream), write) {
            (true, false) => self.read_again(seq),
            (true, true) => self.write_again(seq),
            (false, _) => self.book_among(stream, seq, write, turn),
        }
    }

    #[cold]
    fn book_among(&self, stream: &StreamCore<B>, seq: u64, write: bool, turn: &Turn) {
        let mut spread = self.spread();
        // The turn ends with the first recorded use, which stands for all of the operation's uses.
        let write = spread.turns.end(turn) || write;
        let own = spread.own(stream);
        own.used = seq;
        if write {
            (own.wrote, own.arrived) = (seq, false);
        }
        stream.mark_if_awaited();
        self.settle(&mut spread);
    }

    /// Records that peers' data has arrived after operation `seq`, which is in `stream`: a write
    /// that happens whatever this rank's streams do.
    pub(crate) fn arrived(&self, stream: &StreamCore<B>, seq: u64) {
        let mut spread = self.spread();
        // Forget finished waits. Their communicator is this stream's too, so their errors surface
        // here.
        if spread.uses.len() > FEW {
            spread.uses.retain(|earlier| {
                let own = earlier.stream.id() == stream.id();
                own || !earlier.arrived || !earlier.stream.is_past(earlier.used)
            });
        }
        let own = spread.own(stream);
        own.arrived |= own.wrote == 0;
        (own.wrote, own.used) = (seq, seq);
        stream.mark_if_awaited();
        self.settle(&mut spread);
    }

    /// The operation will not be enqueued after all. The numbers it took stay: the thread that
    /// takes turns may not own the memory.
    #[cold]
    pub(super) fn end_turn(&self, turn: &Turn) {
        self.spread.lock().turns.end(turn);
    }

    /// The caller owns the memory, which now belongs to a window: while it is in any, several
    /// threads record its uses.
    pub(crate) fn enter_window(&self) {
        let mut spread = self.spread();
        spread.windows = spread.windows.saturating_add(1);
    }

    /// Leaves a window, on any thread. As with [`release`](Self::release), the next recorded use
    /// returns to the fast path: doing it here would write the numbers beside the owning thread and
    /// could lose its last ones.
    pub(crate) fn leave_window(&self) {
        let mut spread = self.spread.lock();
        spread.windows = spread.windows.saturating_sub(1);
    }

    /// The communicator of its window failed. A put that moves data then goes on, and nothing waits
    /// for it.
    pub(crate) fn expose(&self) {
        self.spread.lock().exposed = true;
    }

    /// Whether puts that nothing waits for may still write it.
    pub(crate) fn is_exposed(&self) -> bool {
        self.spread.lock().exposed
    }

    /// The streams of a plan use parts of the memory, and the plan orders these uses among
    /// themselves, until the next write from outside.
    pub(crate) fn part(&self, team: u64) {
        self.spread().team = team;
    }

    /// The memory is lent: nothing may name it beyond its loan.
    pub(crate) fn set_lent(&self) {
        let mut spread = self.spread();
        spread.lent = true;
        self.settle(&mut spread);
    }

    /// Registers a holder of the memory; false if the memory may have none.
    pub(crate) fn lease(&self, by: Lessee) -> bool {
        let mut spread = self.spread();
        let may = !spread.lent;
        *spread.leases(by) += u32::from(may);
        self.settle(&mut spread);
        may
    }

    /// Removes a holder, on any thread. That thread may not be the one that records uses, so the
    /// fast path's numbers stay; after the last graph, the next recorded use returns to the fast
    /// path.
    pub(crate) fn release(&self, by: Lessee) {
        *self.spread.lock().leases(by) -= 1;
    }

    /// Whether a graph names the memory, or a captured plan.
    pub(crate) fn is_captured(&self) -> bool {
        let spread = self.spread.lock();
        spread.graphs > 0 || spread.plans > 0
    }

    /// Whether a communicator has it registered.
    pub(crate) fn is_registered(&self) -> bool {
        self.spread.lock().registrations > 0
    }

    /// Whether a graph names it, so that the graph's owner uses it too.
    pub(crate) fn is_in_a_graph(&self) -> bool {
        self.spread.lock().graphs > 0
    }

    /// Whether it is in a window, whose peers' puts are waited for by this header alone.
    pub(crate) fn is_in_a_window(&self) -> bool {
        self.spread.lock().windows > 0
    }

    /// All uses are over: says once why data did not arrive.
    pub(crate) fn tell_undone(&self) -> Result<()> {
        let Some(error) = wait::undone(&self.points(false)?) else { return Ok(()) };
        self.forget();
        Err(reported(error))
    }

    /// All uses are over, and whatever some of them left undone was reported or overwritten.
    #[cold]
    pub(crate) fn forget(&self) {
        let mut spread = self.spread();
        // If two threads record uses, the other may have added one since.
        if !spread.is_shared() {
            spread.uses.clear();
            spread.team = 0;
        }
        self.settle(&mut spread);
    }

    /// The streams whose work may still use memory that several threads record.
    #[cfg(feature = "cuda")]
    pub(crate) fn carriers(&self) -> Vec<B::Stream> {
        let mut spread = self.spread();
        spread.uses.retain(|earlier| !earlier.stream.is_past(earlier.used));
        let carriers = spread.uses.iter().map(|earlier| earlier.stream.raw().clone()).collect();
        self.settle(&mut spread);
        carriers
    }

    /// The streams whose work may still use the memory.
    pub(super) fn streams(&mut self) -> Vec<B::Stream> {
        let spread = self.spread.get_mut();
        let streams = spread.sole.iter().chain(spread.uses.iter().map(|earlier| &earlier.stream));
        streams.map(|stream| stream.raw().clone()).collect()
    }

    /// The points that a host read (`write` false) or host write has to wait for.
    pub(crate) fn points(&self, write: bool) -> Result<Vec<Awaited<B>>> {
        self.points_of(&mut self.spread(), write)
    }

    /// The points of all uses so far, for a thread that need not own the memory: the owner may
    /// record more meanwhile.
    pub(crate) fn points_seen(&self) -> Result<Vec<Awaited<B>>> {
        let spread = self.spread.lock();
        let sole = spread.sole.iter().map(|stream| (stream, self.used.load(Relaxed)));
        let uses = sole.chain(spread.uses.iter().map(|known| (&known.stream, known.used)));
        uses.filter(|(_, seq)| *seq > 0).map(|(stream, seq)| stream.reach(seq)).collect()
    }

    /// [`points`](Self::points), with a turn at the memory until the host is done with it.
    pub(super) fn points_in_turn(&self, write: bool) -> Result<(Vec<Awaited<B>>, HostTurn<'_, B>)> {
        let mut own = HostTurn { order: self, turn: Turn::default() };
        let mut patience = None;
        loop {
            let mut spread = self.spread();
            match spread.take_turn(&mut own.turn, write) {
                Ok(()) => return Ok((self.points_of(&mut spread, write)?, own)),
                Err(error) if !own.turn.must_wait() => return Err(error),
                Err(_) => {}
            }
            let users: Vec<_> = spread.uses.iter().flat_map(|known| known.stream.users()).collect();
            drop(spread);
            patience.get_or_insert_with(Patience::new).rest(&users)?;
        }
    }

    fn points_of(&self, spread: &mut Spread<B>, write: bool) -> Result<Vec<Awaited<B>>> {
        let mut points = Vec::new();
        for earlier in &spread.uses {
            let seq = if write { earlier.used } else { earlier.wrote };
            if seq > 0 {
                points.push(earlier.stream.reach(seq)?);
            }
        }
        self.settle(spread);
        Ok(points)
    }

    /// Takes the lock with every use in `uses`; `sole` is cleared until [`settle`](Self::settle).
    fn spread(&self) -> MutexGuard<'_, Spread<B>> {
        let mut spread = self.spread.lock();
        self.sole.store(0, Relaxed);
        if let Some(stream) = spread.sole.take() {
            let (wrote, used) = (self.wrote.load(Relaxed), self.used.load(Relaxed));
            spread.uses.push(Use { stream, team: 0, wrote, used, arrived: false });
        }
        spread
    }

    /// Returns to the fast path when one stream is left, unless that marks its operations.
    fn settle(&self, spread: &mut Spread<B>) {
        if !spread.is_shared()
            && spread.team == 0
            && spread.turns.is_empty()
            && let [only] = &*spread.uses
            && !only.stream.is_awaited()
            && let Some(only) = spread.uses.pop()
        {
            self.wrote.store(only.wrote, Relaxed);
            self.used.store(only.used, Relaxed);
            self.sole.store(only.stream.id(), Relaxed);
            spread.sole = Some(only.stream);
        }
    }
}

/// The host's turn at memory.
pub(super) struct HostTurn<'o, B: Streams> {
    order: &'o Order<B>,
    turn: Turn,
}

impl<B: Streams> Drop for HostTurn<'_, B> {
    fn drop(&mut self) {
        if self.turn.is_had() {
            self.order.end_turn(&self.turn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::turn::Turn;
    use super::{Lessee, Order};
    use crate::Result;
    use crate::host::HostBackend;
    use crate::stream::StreamCore;

    /// A captured plan is dropped by a thread that may not own the memory, while another records
    /// its uses.
    #[test]
    fn what_a_plan_names_is_booked_as_before() -> Result<()> {
        let stream = StreamCore::<HostBackend>::open(0)?;
        let order = Order::<HostBackend>::default();
        let write = || -> Result<()> {
            let mut turn = Turn::default();
            order.wait(&stream, true, &mut turn)?;
            order.book(&stream, stream.number(), true, &turn);
            Ok(())
        };
        write()?;
        assert!(order.is_alone(&stream));
        assert!(order.lease(Lessee::Plan));
        assert!(order.is_alone(&stream) && order.is_captured());
        order.release(Lessee::Plan);
        assert!(order.is_alone(&stream) && !order.is_captured());

        // The thread that launches a graph may not own the memory.
        assert!(order.lease(Lessee::Graph));
        assert!(!order.is_alone(&stream));
        write()?;
        assert!(!order.is_alone(&stream));
        order.release(Lessee::Graph);
        assert!(!order.is_alone(&stream) && !order.is_captured());
        write()?;
        assert!(order.is_alone(&stream));
        Ok(())
    }
}

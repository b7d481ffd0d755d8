//! Communicators whose ranks are in several processes.
//!
//! Each process has the whole communicator: its own ranks, and a copy of every other one. A rank
//! says what happens to it, in order, and the copies do the same: the stream of a copy gets a group
//! when the rank's own stream has reached it. So meetings, signals, departures and reports are the
//! same code as among threads. Two things differ. A process moves only what its own ranks receive,
//! and an operation that moves memory is over when every process has said that its part is done.
//!
//! `docs/decisions/079-ranks-of-the-host-in-processes.md` says why.

mod blocked;
mod circle;
mod far;
mod hear;
mod join;
mod packet;
mod steps;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use std::cell::Cell;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use blocked::Said;
use far::Putting;
use hear::Later;
pub(in crate::host) use join::Ear;
pub(crate) use join::Joining;
pub(super) use packet::Event;
use packet::{Header, Named, Note};
use steps::Moving;

use super::active_group::{Booked, Phase};
use super::comm::{CommState, MemberId};
use super::meeting::Which;
use super::state::{Out, State};
use super::stream::{Progress, StreamToken};
use crate::backend::{Departure, Refusal, WindowId, Wire};
use crate::error::{Error, Hazard, Unsupported};
use crate::host::far::{Link, Spot};
use crate::host::moves::Held;
use crate::host::shared::{self, Address, Peer};
use crate::{Rank, Result};

/// Of what this process said or heard last. Changed under the engine's lock.
static TICK: AtomicU64 = AtomicU64::new(0);

/// What a process knows of the ranks of other processes.
pub(super) struct Remote {
    ranks: Vec<Place>,
    /// Operations whose data moves, or that some rank has completed already.
    moving: HashMap<(Which, u64), Moving>,
    /// How the ranks of this process reach those of others, by rank.
    wires: Vec<Option<Arc<dyn Wire>>>,
    /// Some ranks are on other machines.
    is_spread: bool,
    /// How many events of each rank were said or heard, if it is spread.
    heard: Vec<Cell<u64>>,
    /// Events whose causes have not been heard.
    later: Vec<Later>,
    /// Puts to other machines, by number.
    puts: HashMap<u64, Putting>,
    /// How many groups and refusals of each rank were said or heard.
    calls: Vec<u64>,
    blocked: Said,
}

/// Where a rank is.
enum Place {
    Unknown,
    /// In this process.
    Here,
    /// In a process whose memory is not mapped yet.
    Known(Address),
    /// On another machine, where MPI knows of its process.
    Elsewhere(Option<Vec<Spot>>),
    There(Box<There>),
}

/// The copy of a rank of another process.
struct There {
    reach: Reach,
    /// Where its groups run.
    stream: Arc<StreamToken>,
    /// How many puts it has completed that its copy has not reached.
    puts: usize,
    /// It will complete nothing more.
    is_dead: bool,
}

/// How the memory of another process is reached.
#[derive(Clone)]
enum Reach {
    Mapped(Arc<Peer>),
    Far(Link),
}

impl Remote {
    pub(super) fn new(size: usize) -> Self {
        let ranks = (0..size).map(|_| Place::Unknown).collect();
        Self {
            ranks,
            moving: HashMap::new(),
            wires: vec![None; size],
            is_spread: false,
            heard: vec![Cell::new(0); size],
            later: Vec::new(),
            puts: HashMap::new(),
            calls: vec![0; size],
            blocked: Said::new(),
        }
    }

    /// Notes that a rank is in this process.
    pub(super) fn is_here(&mut self, rank: usize, wire: Option<Arc<dyn Wire>>) {
        self.ranks[rank] = Place::Here;
        self.wires[rank] = wire;
    }

    /// The first rank of this process.
    fn first(&self) -> Option<usize> {
        self.ranks.iter().position(|place| matches!(place, Place::Here))
    }

    /// Tells a rank on another machine something, by a rank of this process.
    fn note(&self, by: usize, to: usize, note: &Note, payload: &[u8]) {
        if let Some(Some(wire)) = self.wires.get(by)
            && let Some(bytes) = note.bytes(payload)
        {
            wire.tell(Some(Rank::at(to)), bytes);
        }
    }

    fn there(&mut self, rank: usize) -> Option<&mut There> {
        match self.ranks.get_mut(rank)? {
            Place::There(there) => Some(there),
            Place::Unknown | Place::Here | Place::Known(_) | Place::Elsewhere(_) => None,
        }
    }

    /// The streams of the ranks that live in other processes.
    pub(super) fn copies(&self) -> impl Iterator<Item = &Progress> {
        self.ranks.iter().filter_map(|place| match place {
            Place::There(there) => Some(&*there.stream.progress),
            Place::Unknown | Place::Here | Place::Known(_) | Place::Elsewhere(_) => None,
        })
    }

    /// Notes that a rank completes nothing more.
    fn dies(&mut self, rank: usize) {
        if let Some(there) = self.there(rank) {
            there.is_dead = true;
        }
    }

    /// By rank, whether it is in this process.
    fn own(&self) -> Vec<bool> {
        self.ranks.iter().map(|place| matches!(place, Place::Here)).collect()
    }

    /// Whether nothing more is to come of a rank.
    fn is_silent(&self, rank: usize) -> bool {
        matches!(&self.ranks[rank], Place::There(there) if there.is_dead)
    }
}

impl CommState {
    /// Whether a rank is the copy of one in another process.
    pub(super) fn is_copy(&self, rank: usize) -> bool {
        self.remote.as_ref().is_some_and(|remote| !matches!(remote.ranks[rank], Place::Here))
    }

    /// Whether the copy of a rank has reached a put that the rank has not completed, as far as it
    /// is known.
    fn stands_at_a_put(&mut self, rank: usize) -> bool {
        let has_none = |there: &mut There| there.puts == 0;
        let waits =
            self.remote.as_mut().and_then(|remote| remote.there(rank)).is_some_and(has_none);
        waits
            && self.members[rank].active.as_ref().is_some_and(|active| match active.phase {
                Phase::OneSided(at) => {
                    active.ops.get(at).is_some_and(|op| matches!(op.op, Booked::Put(_)))
                }
                Phase::Collectives | Phase::Transfers => false,
            })
    }

    /// Tells the other processes what happens to a rank of this one.
    fn say(&self, rank: usize, event: &Event, payload: &[u8]) {
        let Some(remote) = self.remote.as_ref().filter(|_| !self.is_copy(rank)) else { return };
        let tick = TICK.fetch_add(1, Ordering::Relaxed) + 1;
        let mut causes = Vec::new();
        if remote.is_spread {
            remote.heard[rank].set(remote.heard[rank].get() + 1);
            causes = remote.heard.iter().map(Cell::get).collect();
        }
        let header = Header { tick, comm: self.id, rank: rank as u32, causes };
        match postcard::to_stdvec(&(header, event)) {
            Ok(mut bytes) => {
                bytes.extend_from_slice(payload);
                shared::send(&bytes);
                if remote.is_spread
                    && let Some(wire) = &remote.wires[rank]
                    && let Some(bytes) = Note::Said.bytes(&bytes)
                {
                    wire.tell(None, bytes);
                }
            }
            Err(error) => log::error!("an event does not encode: {error}"),
        }
    }

    /// Counts a call of a rank that its peers hear of.
    fn makes_call(&mut self, rank: usize) {
        if let Some(remote) = &mut self.remote {
            remote.calls[rank] += 1;
        }
    }

    /// Whether a rank in that process may still have to do with it.
    fn awaits(&self, process: u64) -> bool {
        self.remote.as_ref().is_some_and(|remote| {
            let mut ranks = remote.ranks.iter().enumerate();
            ranks.any(|(rank, it)| it.process() == Some(process) && !remote.is_silent(rank))
        })
    }

    /// Whether some ranks are on other machines.
    pub(super) fn is_spread(&self) -> bool {
        self.remote.as_ref().is_some_and(|remote| remote.is_spread)
    }
}

impl State {
    /// Says that a rank issues nothing more.
    pub(super) fn say_left(&mut self, place: MemberId, why: &str, how: Departure) {
        if let Some(comm) = self.comm(place).filter(|comm| comm.remote.is_some()) {
            let issued = comm.issued_by(place.rank);
            let after_others = comm.broken && how == Departure::AtOnce;
            comm.say(place.rank, &Event::Left(why.to_owned(), how, issued, after_others), &[]);
        }
    }

    /// Says that a rank refused calls with these numbers.
    pub(super) fn say_refused(
        &mut self,
        place: MemberId,
        refusals: Vec<(Refusal, u64)>,
        reason: &Error,
    ) {
        if let Some(comm) = self.comm(place).filter(|comm| comm.remote.is_some()) {
            comm.makes_call(place.rank);
            comm.say(place.rank, &Event::Refused(refusals, reason.to_string()), &[]);
        }
    }

    /// What is known of the ranks of other processes, if there are any.
    fn remote(&mut self, place: MemberId) -> Option<&mut Remote> {
        self.comm(place)?.remote.as_deref_mut()
    }

    /// Tells the other processes what happens to a rank.
    pub(super) fn say(&mut self, place: MemberId, event: &Event) {
        if let Some(comm) = self.comm(place) {
            comm.say(place.rank, event, &[]);
        }
    }

    /// Says where a rank's part of a window is.
    pub(super) fn say_window(
        &mut self,
        place: MemberId,
        id: WindowId,
        memory: &Held,
    ) -> Result<()> {
        let Some(comm) = self.comm(place).filter(|comm| comm.remote.is_some()) else {
            return Ok(());
        };
        let offset = match memory.shared_at() {
            Some(offset) => offset,
            None if memory.bytes() == 0 => 0,
            None => {
                return Err(Error::from(Unsupported {
                    what: "a window of memory that this process cannot share".to_owned(),
                    needs: "memory that was allocated for a device after `Seat::tcp`, `from_env` or `launch!`"
                        .to_owned(),
                    found: "adopted or earlier memory, and ranks in several processes".to_owned(),
                }));
            }
        };
        let named = Named::Shared { offset, bytes: memory.bytes() as u64 };
        comm.say(place.rank, &Event::Window(id, named), &[]);
        Ok(())
    }

    /// Whether a rank's group can go on after a put that it has reached, if another process has a
    /// part in that: it executes the puts of its own ranks, and tells where its windows are.
    pub(super) fn put_elsewhere(
        &mut self,
        place: MemberId,
        at: usize,
        out: &mut Out,
    ) -> Option<bool> {
        let comm = self.comm(place)?;
        comm.remote.as_ref()?;
        let active = comm.members[place.rank].active.as_ref()?;
        let Booked::Put(put) = &active.ops.get(at)?.op else { return None };
        if active.refused.is_some() {
            return None;
        }
        let (peer, slot, site, window) = (put.peer.index(), put.slot, put.call.site, put.to.window);
        if !comm.is_copy(place.rank) {
            if !comm.is_copy(peer) {
                return None;
            }
            let bytes = put.span.as_ref().map_or(0, Held::bytes);
            let offset = put.to.offset;
            let Some(window) = comm.windows.get(&window).filter(|window| window.has(peer)) else {
                return Some(false);
            };
            if window.held(peer, offset, bytes).is_some() {
                return None;
            }
            self.unreached(place.of(peer), "its window is shorter than it said", out);
            return Some(false);
        }
        let there = comm.remote.as_mut()?.there(place.rank)?;
        if there.puts == 0 {
            return Some(false);
        }
        there.puts -= 1;
        self.order_put(place, at);
        let active = self.comm(place)?.members[place.rank].active.as_mut()?;
        active.phase = Phase::OneSided(at + 1);
        self.raise(place, peer, slot, Ok(site));
        Some(true)
    }

    /// Says to the other processes that a rank's stream has reached a group.
    pub(super) fn say_group(&mut self, place: MemberId) {
        let Some(comm) = self.comm(place) else { return };
        if comm.remote.is_none() || comm.is_copy(place.rank) {
            return;
        }
        let size = comm.size();
        let Some(active) = comm.members[place.rank].active.as_mut() else { return };
        let is_refused = active.refused.is_some();
        active.publish(size);
        let (mut payload, mut in_use) = (Vec::new(), None);
        let ops = active.ops.iter();
        let ops = ops.map(|op| (op.index, op.named(size, &mut payload, &mut in_use))).collect();
        if let Some(held) = in_use {
            let (rank, Range { start, end }) = (Rank::at(place.rank), held.range());
            let unordered = Hazard { rank, start, end, no_order: None };
            active.refused.get_or_insert_with(|| unordered.into());
        }
        let refused = active.refused.as_ref().map(ToString::to_string);
        // The others hear of it in the event.
        if let Some(error) = active.refused.clone().filter(|_| !is_refused) {
            comm.members[place.rank].pend(error);
        }
        comm.makes_call(place.rank);
        comm.say(place.rank, &Event::Group { ops, refused }, &payload);
    }
}

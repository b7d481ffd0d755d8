//! What other processes say.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::super::active_group::{Booked, HostOp};
use super::super::barrier::Brings;
use super::super::comm::{CommState, MemberId};
use super::super::meeting::{MeetingId, Which};
use super::super::state::{Out, State, Step};
use super::super::stream::Task;
use super::packet::{Event, Header, Issued, Named, NamedOp, sent};
use super::{Place, Reach, Remote, TICK};
use crate::backend::{Departure, Refusal};
use crate::error::{Call, Error, Operation};
use crate::host::Scale;
use crate::host::block::{self, Block};
use crate::host::moves::Held;
use crate::host::{far, shared};

/// A rank said what cannot be.
struct Nonsense;

/// A packet that is not taken in yet.
struct Heard {
    peer: u64,
    header: Header,
    bytes: Vec<u8>,
}

/// An event whose causes have not been heard.
pub(super) struct Later {
    rank: usize,
    causes: Vec<u64>,
    bytes: Vec<u8>,
}

impl Heard {
    fn new(peer: u64, bytes: &[u8]) -> Option<Self> {
        match postcard::take_from_bytes::<Header>(bytes) {
            Ok((header, bytes)) => Some(Self { peer, header, bytes: bytes.to_vec() }),
            Err(_) => {
                log::error!("a process of this job sent what nobody reads");
                None
            }
        }
    }
}

impl State {
    /// Takes in what the other processes have said, causes before effects: what led a process to
    /// say something has a smaller tick, and can be read once that can.
    pub(in crate::host::engine) fn hear(&mut self, out: &mut Out) {
        loop {
            let (mut heard, mut lost) = (Vec::new(), Vec::new());
            let mut each = |peer, bytes: Result<&[u8], shared::Lost>| match bytes {
                Ok(bytes) => heard.extend(Heard::new(peer, bytes)),
                Err(why) => lost.push((peer, why)),
            };
            let mut drain = || shared::has_news() && shared::drain(&mut each);
            // The cause of what is read in one pass can be read in the next one at the latest.
            while drain() {}
            if heard.is_empty() && lost.is_empty() {
                return;
            }
            heard.sort_by_key(|one| one.header.tick);
            for one in heard {
                TICK.fetch_max(one.header.tick, Ordering::Relaxed);
                self.hear_one(one, out);
            }
            for (peer, lost) in lost {
                // A peer that took this process for dead lives: it tells the others of this one.
                self.lose_process(peer, &lost.why, !lost.forgot_this, out);
            }
        }
    }

    fn hear_one(&mut self, heard: Heard, out: &mut Out) {
        let Heard { peer, header, bytes } = heard;
        // A communicator that is over here hears nothing more.
        let Some(&comm) = self.by_id.get(&header.comm) else { return };
        let place = MemberId { comm, id: header.comm, rank: header.rank as usize };
        let is_there = |comm: &mut CommState| {
            let there = comm.remote.as_mut().and_then(|remote| remote.there(place.rank));
            there.is_some_and(|there| match &there.reach {
                Reach::Mapped(mapped) => mapped.id() == peer,
                Reach::Far(_) => false,
            })
        };
        if self.comm(place).is_some_and(is_there) {
            self.hear_in_turn(place, header.causes, bytes, out);
        }
    }

    /// Takes in what a rank on another machine says.
    pub(super) fn hear_far(&mut self, place: MemberId, bytes: &[u8], out: &mut Out) {
        let Some(Heard { header, bytes, .. }) = Heard::new(0, bytes) else { return };
        let is_its = (header.comm, header.rank as usize) == (place.id, place.rank);
        let reach = self.comm(place).and_then(|comm| comm.reach(place.rank));
        if is_its && matches!(reach, Some(Reach::Far(_))) {
            TICK.fetch_max(header.tick, Ordering::Relaxed);
            self.hear_in_turn(place, header.causes, bytes, out);
        }
    }

    /// Takes in an event once its causes have been heard: they may come by another way.
    fn hear_in_turn(&mut self, place: MemberId, causes: Vec<u64>, bytes: Vec<u8>, out: &mut Out) {
        let Some(remote) = self.remote(place) else { return };
        if causes.is_empty() {
            return self.hear_now(place, &bytes, out);
        }
        let rank = place.rank;
        let is_new = causes.len() == remote.ranks.len()
            && causes[rank] > remote.heard[rank].get()
            && !remote.later.iter().any(|one| one.rank == rank && one.causes == causes);
        if is_new {
            remote.later.push(Later { rank, causes, bytes });
        }
        while let Some(comm) = self.comm(place)
            && let is_over = comm.broken
            && let Some(remote) = &mut comm.remote
            && let Some(at) = remote.later.iter().position(|one| is_over || remote.is_ripe(one))
        {
            let Later { rank, causes, bytes } = remote.later.remove(at);
            remote.heard[rank].set(causes[rank].max(remote.heard[rank].get()));
            self.hear_now(place.of(rank), &bytes, out);
        }
    }

    fn hear_now(&mut self, place: MemberId, bytes: &[u8], out: &mut Out) {
        let done = match postcard::take_from_bytes::<Event>(bytes) {
            Ok((event, payload)) => self.hear_event(place, event, payload, out),
            Err(_) => Err(Nonsense),
        };
        if done.is_err() {
            let why = "its process sent what cannot be: all ranks need the same typed-nccl";
            self.depart(place, why, Departure::AtOnce, out);
        }
        self.settle(out);
    }

    fn hear_event(
        &mut self,
        place: MemberId,
        event: Event,
        payload: &[u8],
        out: &mut Out,
    ) -> Result<(), Nonsense> {
        let Some(comm) = self.comm(place) else { return Ok(()) };
        let size = comm.size();
        match event {
            Event::Group { ops, refused } => self.hear_group(place, ops, refused, payload)?,
            Event::Deadlock(found) => self.hear_deadlock(place, found, out),
            Event::Blocked(next, until) => self.hear_blocked(place, next, until, out),
            Event::Refused(refusals, reason) => {
                comm.makes_call(place.rank);
                let reason = Error::other(reason);
                for (refusal, index) in refusals {
                    self.comm(place)
                        .is_none_or(|comm| comm.has(&refusal))
                        .then_some(())
                        .ok_or(Nonsense)?;
                    self.refuse(place, &refusal, Some(index), &reason, out);
                }
            }
            Event::Exchanged(exchanges) => {
                for member in &comm.members {
                    member.health.iter().for_each(|health| health.completes(exchanges));
                }
            }
            Event::Moved(which, index, step) => {
                which.is_within(size).then_some(()).ok_or(Nonsense)?;
                self.moved(MeetingId { place, which, index }, step, out);
            }
            Event::Put => {
                let Some(there) = comm.remote.as_mut().and_then(|it| it.there(place.rank)) else {
                    return Ok(());
                };
                there.puts += 1;
                self.todo.push(Step::Member(place));
            }
            Event::Window(id, named) => {
                let Named::Shared { offset, bytes } = named else { return Err(Nonsense) };
                // Elements of any type may be read there.
                let is_aligned = offset.is_multiple_of(block::ALIGN as u64);
                (bytes == 0 || is_aligned).then_some(()).ok_or(Nonsense)?;
                let from = comm.source(place.rank).ok_or(Nonsense)?;
                let held = from.held(offset, bytes, false)?;
                self.register(place, id, held);
                for rank in 0..size {
                    self.todo.push(Step::Member(place.of(rank)));
                }
            }
            Event::NoWindow(id) => self.unregister(place, id, out),
            Event::Arrived(dev, index) => {
                comm.device_comms.entry(dev).or_default();
                let stream = comm.stream(place.rank);
                let own = stream.as_deref().map(|stream| &*stream.progress);
                let _ = self.arrive(Brings::new(place, dev), index, own, out);
            }
            Event::Gone { rank, why, died } => {
                self.gone(place.of(rank as usize), &why, died, out);
            }
            Event::Left(why, how, issued, after_others) => {
                self.hear_issued(place, &issued)?;
                match after_others {
                    true => self.depart_after_others(place, &why, out),
                    false => self.depart(place, &why, how, out),
                }
            }
        }
        Ok(())
    }

    fn hear_group(
        &mut self,
        place: MemberId,
        ops: Vec<(u64, NamedOp)>,
        refused: Option<String>,
        mut payload: &[u8],
    ) -> Result<(), Nonsense> {
        let Some(comm) = self.comm(place) else { return Ok(()) };
        let from = comm.source(place.rank).ok_or(Nonsense)?;
        comm.makes_call(place.rank);
        let mut booked = Vec::with_capacity(ops.len());
        for (index, op) in ops {
            let op = comm.check(op)?;
            comm.count(place.rank, &op.refusal(), index);
            comm.members[place.rank].last = Some(op.call());
            booked.push(HostOp { index, op: kept(op, &from, &mut payload)?, private: None });
        }
        if comm.broken {
            return Ok(());
        }
        let Some(stream) = comm.stream(place.rank) else { return Ok(()) };
        let member = &mut comm.members[place.rank];
        let unit = member.issued;
        member.issued += 1;
        member.to_come = member.to_come.saturating_sub(1);
        let refused = refused.map(Error::other);
        self.push(&stream, Task::Group { place, unit, ops: booked, refused, time: 0 });
        Ok(())
    }

    fn hear_issued(&mut self, place: MemberId, issued: &Issued) -> Result<(), Nonsense> {
        let Some(comm) = self.comm(place) else { return Ok(()) };
        for &(peer, sent, received) in &issued.transfers {
            if peer as usize >= comm.size() {
                return Err(Nonsense);
            }
            comm.issue_up_to(Which::Transfers { from: place.rank, to: peer as usize }, 0, sent);
            comm.issue_up_to(Which::Transfers { from: peer as usize, to: place.rank }, 1, received);
        }
        comm.issue_up_to(Which::Collectives, place.rank, issued.collectives);
        // Its groups that have not started are known by number only, so the copy is not idle.
        let member = &mut comm.members[place.rank];
        member.to_come = issued.groups.saturating_sub(member.issued);
        Ok(())
    }
}

impl CommState {
    pub(super) fn reach(&mut self, rank: usize) -> Option<Reach> {
        Some(self.remote.as_mut()?.there(rank)?.reach.clone())
    }

    fn source(&mut self, rank: usize) -> Option<Source> {
        Some(Source { reach: self.reach(rank)?, rank: rank as u32 })
    }

    fn stream(&mut self, rank: usize) -> Option<Arc<super::StreamToken>> {
        Some(self.remote.as_mut()?.there(rank)?.stream.clone())
    }

    /// Notes that a rank has issued or refused its call number `index`.
    fn count(&mut self, rank: usize, refusal: &Refusal, index: u64) {
        if let Some((which, member)) = Which::of_refusal(rank, refusal) {
            self.issue_up_to(which, member, index.saturating_add(1));
        }
    }

    /// Whether there are such a peer and slot.
    fn has(&self, refusal: &Refusal) -> bool {
        match *refusal {
            Refusal::Collective => true,
            Refusal::SendTo(peer) | Refusal::RecvFrom(peer) => peer.index() < self.size(),
            Refusal::Signal(peer, slot) | Refusal::Wait(peer, slot, _) => {
                peer.index() < self.size() && self.signals.has(slot)
            }
        }
    }

    /// Checks what the typed layer has checked for this process's own operations.
    fn check(&self, op: NamedOp) -> Result<NamedOp, Nonsense> {
        let size = self.size();
        let is_peer = |rank: crate::Rank| rank.index() < size;
        let call = op.call();
        let ranks_fit = call.root.is_none_or(is_peer) && call.peer.is_none_or(is_peer);
        let fits = match &op {
            NamedOp::Collective(one) => {
                let whole = sent(&call, size);
                let spec = one.name.spec();
                call.operation == Operation::Collective(one.name)
                    && one.send.is_none_or(|send| send.fits(whole, &call))
                    && one.recv.is_none_or(|recv| recv.fits(received(&call, size), &call))
                    && spec.reduces == one.reduction.is_some()
                    && (!(spec.send.only_root || spec.recv.only_root) || call.root.is_some())
            }
            NamedOp::Transfer(one) => one.span.fits(call.bytes(), &call),
            NamedOp::Put(_) | NamedOp::Signal(_) | NamedOp::Wait(_) => true,
        };
        (ranks_fit && fits && self.has(&op.refusal())).then_some(op).ok_or(Nonsense)
    }
}

/// How many bytes a rank receives in a collective, if it receives any.
fn received(call: &Call, size: usize) -> usize {
    let parts = match call.operation {
        Operation::Collective(name) if name.spec().recv.is_whole => size,
        _ => 1,
    };
    call.bytes().saturating_mul(parts)
}

impl Named {
    /// Whether it has so many bytes, aligned for the call's elements, if it can be read.
    fn fits(&self, bytes: usize, call: &Call) -> bool {
        match *self {
            Self::Hidden => true,
            Self::Shared { offset, bytes: own } => {
                own >= bytes as u64 && offset % call.dtype.align() as u64 == 0
            }
            Self::Follows(own) => own >= bytes as u64,
        }
    }

    /// Memory here with the same bytes, once they have come if they `may_come` from afar.
    fn held(
        self,
        from: &Source,
        may_come: bool,
        payload: &mut &[u8],
    ) -> Result<Option<Held>, Nonsense> {
        match self {
            Self::Hidden => Ok(None),
            Self::Shared { offset, bytes } => from.held(offset, bytes, may_come).map(Some),
            Self::Follows(bytes) => {
                let bytes = usize::try_from(bytes).map_err(|_| Nonsense)?;
                let (own, rest) = payload.split_at_checked(bytes).ok_or(Nonsense)?;
                *payload = rest;
                let block = Block::copied(own).map_err(|_| Nonsense)?;
                Ok(Some(Held::all(block, bytes)))
            }
        }
    }
}

/// A rank of another process, whose memory is read.
struct Source {
    reach: Reach,
    rank: u32,
}

impl Source {
    fn held(&self, offset: u64, bytes: u64, may_come: bool) -> Result<Held, Nonsense> {
        let bytes = usize::try_from(bytes).map_err(|_| Nonsense)?;
        if bytes == 0 {
            return Ok(Held::all(Block::adopted(std::ptr::null_mut()), 0));
        }
        let block = match &self.reach {
            Reach::Mapped(peer) => Block::of_peer(peer, offset, bytes),
            Reach::Far(link) => {
                let place = far::Place { link: *link, rank: self.rank, offset };
                offset.checked_add(bytes as u64).ok_or(Nonsense)?;
                Block::of_far(place, may_come.then_some(bytes))
            }
        };
        Ok(Held::all(block.ok_or(Nonsense)?, bytes))
    }
}

impl Remote {
    /// Whether all causes of an event have been heard. Of a rank that died some never come.
    fn is_ripe(&self, event: &Later) -> bool {
        let mut heard = self.ranks.iter().zip(&self.heard).zip(&event.causes).enumerate();
        heard.all(|(rank, ((place, heard), &cause))| match place {
            Place::There(there) => {
                there.is_dead || heard.get() + u64::from(rank == event.rank) >= cause
            }
            Place::Here | Place::Unknown | Place::Known(_) | Place::Elsewhere(_) => true,
        })
    }
}

/// The operation with memory of this process's address space.
fn kept(op: NamedOp, from: &Source, payload: &mut &[u8]) -> Result<Booked, Nonsense> {
    let reduces = matches!(&op, NamedOp::Collective(one) if one.reduction.is_some());
    let is_put = matches!(op, NamedOp::Put(_));
    let mut is_sound = true;
    let memory = |named: &Named, is_written: bool| {
        // Of what a rank receives, others read the share that it has reduced. A put's sender alone
        // reads its memory.
        let is_read = if is_written { reduces } else { !is_put };
        let held = named.held(from, is_read, payload);
        is_sound &= held.is_ok();
        held.unwrap_or_default()
    };
    let booked = op.map(memory, |bytes| Scale::Host(*bytes), |to| *to, |config| *config);
    is_sound.then_some(booked).ok_or(Nonsense)
}

impl Place {
    /// The process on this machine that a rank is in, by its arena.
    pub(super) fn process(&self) -> Option<u64> {
        match self {
            Self::Known(address) => Some(address.id()),
            Self::There(there) => match &there.reach {
                Reach::Mapped(peer) => Some(peer.id()),
                Reach::Far(_) => None,
            },
            Self::Unknown | Self::Here | Self::Elsewhere(_) => None,
        }
    }
}

//! Ranks on other machines: what is read of them is fetched, and puts are sent to them.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::comm::MemberId;
use super::super::job::{Done, Job};
use super::super::meeting::MeetingId;
use super::super::state::{Out, State};
use super::super::{ENGINE, Engine, Here};
use super::packet::{EAGER, Event, Note};
use super::{Reach, Remote};
use crate::Rank;
use crate::backend::{Departure, Target};
use crate::error::{Error, Hazard};
use crate::host::block::Block;
use crate::host::far::{self, Address, Link, Message, Scratch};
use crate::host::moves::{Held, Moves, Read};
use crate::host::shared;

/// The longest message of a put.
const PIECE: usize = 1 << 24;

/// A put that is on its way to another machine.
pub(super) struct Putting {
    to: usize,
    done: Done,
}

impl Remote {
    fn link(&mut self, rank: usize) -> Option<Link> {
        match self.there(rank)?.reach {
            Reach::Far(link) => Some(link),
            Reach::Mapped(_) => None,
        }
    }

    /// Asks a rank on another machine for what batches of an operation read of it.
    pub(super) fn fetch(
        &self,
        id: MeetingId,
        rank: u32,
        reads: Vec<(usize, Read)>,
        moves: &Arc<Moves>,
    ) {
        let Some(own) = self.first() else { return };
        let number = far::number(false);
        let piece = |(_, read): &(usize, Read)| (read.from.offset, read.bytes as u32);
        let pieces = reads.iter().map(piece).collect();
        for (batch, read) in reads {
            let from = rank as usize;
            far::carry(Message {
                link: read.from.link,
                comm: id.place.id,
                rank,
                is_sent: false,
                number,
                at: read.to,
                bytes: read.bytes,
                keep: Some(moves.clone()),
                then: Some(Box::new(move |how| {
                    ENGINE.change(Here::Small, |state, out| {
                        state.fetched(id, batch, from, how, out);
                    });
                })),
            });
        }
        self.note(own, rank as usize, &Note::Fetch { number, pieces }, &[]);
    }
}

impl Engine {
    /// Takes in what a rank on another machine says.
    pub(super) fn hear_far(&self, from: MemberId, bytes: &[u8]) {
        self.change(Here::Small, |state, out| {
            state.hear(out);
            state.hear_far(from, bytes, out);
        });
    }

    /// Sends what a rank on another machine reads of this process's memory.
    pub(super) fn send_pieces(
        &self,
        own: MemberId,
        rank: usize,
        number: u64,
        pieces: &[(u64, u32)],
    ) {
        let mut state = self.lock();
        let comm = state.comm(own).filter(|comm| !comm.broken);
        let link = comm.and_then(|comm| comm.remote.as_mut()?.link(rank));
        drop(state);
        let Some(link) = link else { return };
        for &(offset, bytes) in pieces {
            let bytes = bytes as usize;
            let at = shared::opened().and_then(|arena| arena.reached(offset, bytes));
            let Some(at) = at else {
                return log::error!("rank {rank} reads where this process shares nothing");
            };
            let (comm, rank, at) = (own.id, rank as u32, Address(at));
            let (keep, then) = (None, None);
            far::carry(Message { link, comm, rank, is_sent: true, number, at, bytes, keep, then });
        }
    }

    /// Takes in the put of a rank on another machine.
    pub(super) fn take_put(
        &'static self,
        own: MemberId,
        from: usize,
        number: u64,
        (to, bytes): (Target, u64),
        payload: &[u8],
    ) {
        let mut state = self.lock();
        let Some(comm) = state.comm(own).filter(|comm| !comm.broken) else { return };
        let Some(link) = comm.remote.as_mut().and_then(|remote| remote.link(from)) else { return };
        let window = comm.windows.get(&to.window);
        let target = usize::try_from(bytes)
            .ok()
            .and_then(|bytes| window.and_then(|window| window.held(own.rank, to.offset, bytes)));
        drop(state);
        let Some(target) = target else {
            let why = "it writes where this process shares nothing";
            return self.change(Here::Small, |state, out| state.unreached(own.of(from), why, out));
        };
        let done = Done::FarPut { own, from, number };
        let bytes = target.bytes();
        if bytes <= EAGER {
            if let Some(payload) = payload.get(..bytes)
                && let Ok(block) = Block::copied(payload)
            {
                let moves = Moves::Copy { from: Held::all(block, bytes), to: target };
                self.change(Here::Small, |_, out| out.jobs.push(Job::new(done, moves)));
            }
            return;
        }
        // A closure of this rank may be using the window, so the bytes go there in a move, which
        // takes their range.
        let Some(block) = Scratch::new(bytes).and_then(Block::received) else {
            let why = format!("there is no memory for a put of {bytes} bytes");
            return self.change(Here::Small, |state, out| state.unreached(own.of(from), &why, out));
        };
        let source = Held::all(block, bytes);
        let left = Arc::new(AtomicUsize::new(bytes.div_ceil(PIECE)));
        for (at, bytes) in pieces(source.start(), bytes) {
            let (left, source, target) = (left.clone(), source.clone(), target.clone());
            far::carry(Message {
                link,
                comm: own.id,
                rank: from as u32,
                is_sent: false,
                number,
                at,
                bytes,
                keep: Some(Arc::new(source.clone())),
                then: Some(Box::new(move |how| match how {
                    Ok(()) if left.fetch_sub(1, Ordering::AcqRel) == 1 => {
                        let moves = Moves::Copy { from: source, to: target };
                        self.change(Here::Small, |_, out| out.jobs.push(Job::new(done, moves)));
                    }
                    Ok(()) => {}
                    Err(why) => {
                        self.change(Here::Small, |state, out| {
                            state.unreached(own.of(from), &why, out)
                        });
                    }
                })),
            });
        }
    }

    /// A put to a rank on another machine is complete.
    pub(super) fn written(&self, to: MemberId, number: u64) {
        self.change(Here::Small, |state, out| {
            let Some(remote) = state.remote(to) else { return };
            if remote.puts.get(&number).is_some_and(|put| put.to == to.rank)
                && let Some(put) = remote.puts.remove(&number)
            {
                state.job_over(put.done, out);
            }
        });
    }
}

/// The pieces in which so many bytes travel.
fn pieces(at: *mut u8, bytes: usize) -> impl Iterator<Item = (Address, usize)> {
    let piece = move |start| (Address(at.wrapping_add(start)), PIECE.min(bytes - start));
    (0..bytes).step_by(PIECE).map(piece)
}

impl State {
    /// Sends a put to a rank on another machine.
    pub(in crate::host::engine) fn put_far(
        &mut self,
        place: MemberId,
        peer: usize,
        from: Held,
        to: Target,
        done: Done,
        out: &mut Out,
    ) {
        let Some(remote) = self.remote(place) else { return };
        let Some(link) = remote.link(peer) else { return };
        let (number, bytes) = (far::number(true), from.bytes());
        remote.puts.insert(number, Putting { to: peer, done });
        let mut payload = Vec::new();
        if bytes <= EAGER {
            if from.append_to(&mut payload).is_err() {
                let (rank, Range { start, end }) = (Rank::at(place.rank), from.range());
                let error = Error::from(Hazard { rank, start, end, no_order: None });
                let health =
                    self.comm(place).and_then(|comm| comm.members[place.rank].health.clone());
                out.poisoned.extend(health.filter(|health| health.poison(error)));
                let why = "a closure of its process writes what it puts";
                return self.unreached(place, why, out);
            }
        } else {
            let at = from.start();
            let keep: Arc<dyn Any + Send + Sync> = Arc::new(from);
            for (at, bytes) in pieces(at, bytes) {
                far::carry(Message {
                    link,
                    comm: place.id,
                    rank: peer as u32,
                    is_sent: true,
                    number,
                    at,
                    bytes,
                    keep: Some(keep.clone()),
                    then: None,
                });
            }
        }
        let note = Note::Put { number, to, bytes: bytes as u64 };
        remote.note(place.rank, peer, &note, &payload);
    }

    /// Tells a rank on another machine that its put is complete.
    pub(in crate::host::engine) fn tell_written(&mut self, own: MemberId, to: usize, number: u64) {
        if let Some(remote) = self.remote(own) {
            remote.note(own.rank, to, &Note::Written(number), &[]);
        }
    }

    /// Ends puts that nobody completes: of a communicator that broke, or to a rank that died.
    pub(super) fn end_puts(&mut self, place: MemberId, out: &mut Out) {
        let Some(comm) = self.comm(place) else { return };
        let is_broken = comm.broken;
        let Some(remote) = &mut comm.remote else { return };
        let is_over = |put: &Putting| is_broken || remote.is_silent(put.to);
        let over = remote.puts.iter().filter(|(_, put)| is_over(put)).map(|(number, _)| *number);
        let over: Vec<u64> = over.collect();
        for number in over {
            if let Some(put) = self.remote(place).and_then(|remote| remote.puts.remove(&number)) {
                self.job_over(put.done, out);
            }
        }
    }

    /// MPI does not carry a rank's data, which ends the communicator.
    pub(in crate::host::engine) fn unreached(&mut self, place: MemberId, why: &str, out: &mut Out) {
        let Some(comm) = self.comm(place).filter(|comm| !comm.broken) else { return };
        let why = format!("its data cannot be reached: {why}");
        if let Some(own) = comm.remote.as_ref().and_then(|remote| remote.first()) {
            let rank = place.rank as u32;
            comm.say(own, &Event::Gone { rank, why: why.clone(), died: false }, &[]);
        }
        self.depart(place, &why, Departure::AtOnce, out);
    }
}

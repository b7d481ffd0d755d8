//! Plays a rough program with several threads per rank.
//!
//! An act's resources move, through channels, to the thread that plays it. Every thread plays its
//! acts in the program's order, and every resource is used in that order, so the outcome is that of
//! the acts one after the other. No wait covers later work: a mark after each act keeps later work
//! on a stream out of the waits for this one, and no thread is far ahead of another.

use std::mem::replace;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use typed_nccl::{Error, Result, Seat};

use super::act::Id;
use super::calm::calm;
use super::claims;
use super::deaths::Planned;
use super::random::Random;
use super::rank::{Rank, seats};
use super::rough::{Rough, calm_with};
use super::script::{Outcome, Script};
use super::step::{COMMS, STORES, STREAMS};
use super::store::{Comm, Queue, Store};

/// How many acts a thread may be ahead of another: fewer than the marks that a stream remembers.
const AHEAD: usize = 16;

enum Thing {
    Comm(Box<Option<Comm>>),
    Stream(Queue),
    Store(Store),
}

enum Message {
    Here(Id, Thing),
    /// The sender plays no more.
    Stop,
}

/// Why a thread plays no more.
enum Stopped {
    Failed(Error),
    /// Another thread of the rank stopped.
    Told,
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A thread of a rank, and its resources.
struct Hands<'p> {
    me: usize,
    rank: Rank,
    rough: Rough,
    has: Vec<Id>,
    inbox: Receiver<Message>,
    others: Vec<Sender<Message>>,
    progress: &'p [AtomicUsize],
    script: &'p Script,
    outcome: &'p Outcome,
    /// By act.
    cast: &'p [usize],
}

/// Plays a program on all ranks; panics with what was wrong.
pub(crate) fn play(script: &Script) {
    let outcome = &script.outcome();
    thread::scope(|scope| {
        for seats in seats(script.shape.ranks) {
            scope.spawn(move || perform(seats, script, outcome));
        }
    });
    let faults = claims::faults();
    assert!(faults.is_empty(), "seed {}: {}", script.seed, faults.join("\n"));
}

/// Plays one rank.
pub(crate) fn perform(seats: Vec<Seat>, script: &Script, outcome: &Outcome) {
    let mut rank = match Rank::new(seats, script.shape, script.deadline) {
        Ok(rank) => rank,
        // A connected rank may be gone before others have seen that they are connected.
        Err(error) => return script.look(&error),
    };
    rank.strict = script.is_strict();
    let mut random = Random::new(script.seed * 31 + rank.index as u64);
    let cast: &[usize] = &cast(&mut random, script);
    let progress: &[AtomicUsize] = &[(); 4].map(|()| AtomicUsize::new(0));
    let progress = &progress[..script.threads];
    let (outboxes, inboxes): (Vec<_>, Vec<_>) = progress.iter().map(|_| channel()).unzip();
    for id in Id::all() {
        let first = next_user(outcome, cast, id, 0);
        let Ok(thing) = rank.take(id) else { return };
        // The receivers are alive.
        let _ = outboxes[first].send(Message::Here(id, thing));
    }
    thread::scope(|scope| {
        for (me, inbox) in inboxes.into_iter().enumerate() {
            let (lent, others) = (rank.lent(), outboxes.clone());
            scope.spawn(move || {
                let rank = lent.expect("a device that is open opens streams");
                let rough = Rough::new(&rank).expect("little memory");
                let has = Vec::new();
                let hands =
                    Hands { me, rank, rough, has, inbox, others, progress, script, outcome, cast };
                if let Err(panic) = catch_unwind(AssertUnwindSafe(|| hands.perform()))
                    && !panic.is::<Planned>()
                {
                    resume_unwind(panic);
                }
            });
        }
    });
}

/// Which thread plays which act.
fn cast(random: &mut Random, script: &Script) -> Vec<usize> {
    let mut now = 0;
    let next = |_| {
        if random.one_in(2) {
            now = random.below(script.threads);
        }
        now
    };
    script.acts.iter().map(next).collect()
}

/// The first user of `id` from act `from` on: the first thread, if there is none.
fn next_user(outcome: &Outcome, cast: &[usize], id: Id, from: usize) -> usize {
    let mut acts = outcome.uses.iter().zip(cast).skip(from);
    acts.find(|(uses, _)| uses.contains(&id)).map_or(0, |(_, &thread)| thread)
}

impl Script {
    /// The errors that a rank may get when others die.
    fn look(&self, error: &Error) {
        let expected = !self.is_strict() && !matches!(error, Error::Timeout(_) | Error::Hazard(_));
        assert!(expected, "seed {}: {error}", self.seed);
    }
}

impl Rank {
    /// A rank's other thread, which has no resources yet.
    fn lent(&self) -> Result<Self> {
        let nothing = |_| Ok(Store::Buffer(self.device.zeros(0)?));
        Ok(Self {
            index: self.index,
            shape: self.shape,
            slots: self.slots.clone(),
            streams: (0..STREAMS).map(|_| self.device.stream()).collect::<Result<_>>()?,
            tick: self.device.zeros(1)?,
            comms: (0..COMMS).map(|_| None).collect(),
            stores: (0..STORES).map(nothing).collect::<Result<_>>()?,
            strict: self.strict,
            marks: Vec::new(),
            device: self.device.clone(),
        })
    }

    fn take(&mut self, id: Id) -> Result<Thing> {
        Ok(match id {
            Id::Comm(at) => Thing::Comm(Box::new(self.comms[at].take())),
            Id::Stream(at) => Thing::Stream(replace(&mut self.streams[at], self.device.stream()?)),
            Id::Store(at) => {
                let nothing = Store::Buffer(self.device.zeros(0)?);
                Thing::Store(replace(&mut self.stores[at], nothing))
            }
        })
    }

    fn put(&mut self, id: Id, thing: Thing) {
        match (id, thing) {
            (Id::Comm(at), Thing::Comm(comm)) => self.comms[at] = *comm,
            (Id::Stream(at), Thing::Stream(stream)) => self.streams[at] = stream,
            (Id::Store(at), Thing::Store(store)) => self.stores[at] = store,
            _ => panic!("things come with their own names"),
        }
    }
}

impl Drop for Hands<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.stop();
        }
    }
}

impl Hands<'_> {
    fn perform(mut self) {
        let Script { seed, .. } = *self.script;
        let mut random = Random::new(seed * 77 + (self.rank.index * 7 + self.me) as u64);
        let outcome = self.acts(&mut random);
        match outcome {
            Ok(()) if self.script.is_strict() => self.end(&mut random),
            Ok(()) => self.rank.end(&mut random, &|error: &Error| self.script.look(error)),
            Err((at, stopped)) => {
                self.stop();
                if let Stopped::Failed(error) = stopped {
                    let act = self.script.acts.get(at);
                    assert!(!self.rank.strict, "seed {seed}, act {at}, {act:?}: {error}");
                    self.script.look(&error);
                }
                self.leave(&mut random);
            }
        }
    }

    fn acts(&mut self, random: &mut Random) -> Result<(), (usize, Stopped)> {
        for at in 0..self.cast.len() {
            if self.cast[at] == self.me {
                self.act(at, random).map_err(|stopped| (at, stopped))?;
            }
        }
        self.progress[self.me].store(usize::MAX, Ordering::Relaxed);
        if self.me == 0 {
            Id::all().try_for_each(|id| self.get(id)).map_err(|stopped| (usize::MAX, stopped))?;
        }
        Ok(())
    }

    fn act(&mut self, at: usize, random: &mut Random) -> Result<(), Stopped> {
        self.progress[self.me].store(at, Ordering::Relaxed);
        let is_ahead =
            |other: &AtomicUsize| other.load(Ordering::Relaxed) < at.saturating_sub(AHEAD);
        while self.progress.iter().any(is_ahead) {
            thread::sleep(Duration::from_micros(50));
        }
        let act = &self.script.acts[at];
        let uses = &self.outcome.uses[at];
        uses.iter().try_for_each(|&id| self.get(id))?;
        let index = self.rank.index;
        for plan in self.script.deaths.iter().filter(|plan| plan.is(index, at)) {
            self.rank.die(plan)?;
        }
        let is_gone = |at: usize| self.rank.comms.get(at).is_none_or(Option::is_none);
        if uses.iter().any(|&id| matches!(id, Id::Comm(at) if is_gone(at)))
            || self.rank.comms.is_empty()
        {
            return Err(Stopped::Told);
        }
        if random.one_in(20) {
            thread::sleep(Duration::from_micros(random.next() % 300));
        }
        let expected = self.outcome.read.get(&at).map(|ranks| &ranks[self.rank.index][..]);
        let expected = expected.filter(|_| self.rank.strict);
        self.rough.act(&mut self.rank, act, expected)?;
        for &id in uses {
            self.mark(id)?;
            let next = next_user(self.outcome, self.cast, id, at + 1);
            if next != self.me {
                self.has.retain(|&has| has != id);
                let thing = self.rank.take(id)?;
                // A thread that has ended has announced it.
                let _ = self.others[next].send(Message::Here(id, thing));
            }
        }
        Ok(())
    }

    /// Informs the rank's other threads that this one plays no more.
    fn stop(&self) {
        self.progress[self.me].store(usize::MAX, Ordering::Relaxed);
        for other in &self.others {
            // Threads that have ended need no message.
            let _ = other.send(Message::Stop);
        }
    }

    /// Later waits for the work enqueued so far cover no more than that.
    fn mark(&self, id: Id) -> Result<()> {
        match id {
            Id::Stream(at) => self.rank.streams[at].mark().map(drop),
            Id::Comm(at) => {
                self.rank.comms[at].iter().try_for_each(|comm| comm.stream().mark().map(drop))
            }
            Id::Store(_) => Ok(()),
        }
    }

    /// Waits until `id` is here.
    fn get(&mut self, id: Id) -> Result<(), Stopped> {
        while !self.has.contains(&id) {
            match self.inbox.recv() {
                Ok(Message::Here(id, thing)) => {
                    self.has.push(id);
                    self.rank.put(id, thing);
                }
                Ok(Message::Stop) | Err(_) => return Err(Stopped::Told),
            }
        }
        Ok(())
    }

    /// Checks every store against the model, on the first thread, which has them all; then ends.
    fn end(&mut self, random: &mut Random) {
        if self.me > 0 {
            return;
        }
        if random.one_in(2) {
            self.rank.streams.clear();
        }
        self.check();
        for comm in self.rank.comms.drain(..).flatten() {
            calm_with(comm, Comm::try_finish).map(drop).expect("all is well");
        }
        self.check();
    }

    fn check(&self) {
        let (seed, rank) = (self.script.seed, self.rank.index);
        for (index, store) in self.rank.stores.iter().enumerate() {
            let found = calm(|| store.to_vec()).expect("all is well");
            let same = found == self.outcome.last.stores[rank][index];
            assert!(same, "seed {seed}: store {index} of rank {rank}");
        }
    }

    /// A rank that waits before it has left may wait for ranks that wait for it. A communicator on
    /// its way to this thread leaves too.
    fn leave(&mut self, random: &mut Random) {
        drop(replace(&mut self.inbox, channel().1));
        for comm in self.rank.comms.iter_mut().filter_map(Option::take) {
            if random.one_in(2) {
                drop(comm.abort());
            }
        }
        for store in &self.rank.stores {
            match store.to_vec() {
                // It has not waited for puts that are still in flight.
                Err(Error::Hazard(_)) => {}
                Err(error) if !self.rank.strict => self.script.look(&error),
                _ => {}
            }
        }
    }
}

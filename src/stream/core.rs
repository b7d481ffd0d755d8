//! A stream without its device type, as buffers and communicators keep it.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use super::takers::Taker;
use super::undone::Undone;
use crate::backend::{Backend, Streams};
use crate::error::{CaptureFault, Error, NotCapturable, Site};
use crate::health::{Carrier, Health};
use crate::lock::Mutex;
use crate::memory::Order;
use crate::stamp::Maker;
use crate::{Result, wait};

/// How many marks a stream remembers for narrowing.
const MARKS: usize = 32;

/// The owner's side of a stream.
pub(crate) struct StreamCore<B: Streams> {
    shared: Arc<StreamShared<B>>,
    id: u64,
    /// The last communicator noted.
    last_user: Cell<u64>,
    /// By other stream: the operation up to which this one already waits for it.
    waited: RefCell<Vec<(u64, u64)>>,
    /// The records of what its last kernels took, the latest at the end.
    takers: RefCell<Vec<Arc<Taker<B>>>>,
    mode: Mode,
    /// The resources of the graph it is being captured for.
    graph: Option<Arc<Capturable>>,
    /// Whether a step of the program enqueues on it.
    asked: Cell<bool>,
    /// The plan that enqueues on it, and orders its streams' uses of some memory itself; or 0.
    team: Cell<u64>,
}

/// The resources of a graph under construction.
pub(crate) struct Capturable {
    /// The addresses of its memory's headers.
    pub(crate) memory: Vec<usize>,
    /// The communicators whose end ends the graph.
    pub(crate) makers: Vec<Maker>,
}

/// How a stream treats its work.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Runs it.
    Live,
    /// Its communicator records it; nothing is enqueued.
    Recorded,
    /// The device captures it: nothing runs, so nothing is ordered.
    Captured,
}

/// How many communicators of another stream are compared without allocating a list.
const FEW: usize = 8;

/// How many other streams are remembered.
const REMEMBERED: usize = 16;

/// How many device communicators are found again without a lock.
const TAKEN: usize = 8;

/// A plan enqueues on a stream.
struct Teamed<'s>(&'s Cell<u64>, u64);

impl Drop for Teamed<'_> {
    fn drop(&mut self) {
        self.0.set(self.1);
    }
}

/// The part of a stream that buffers, marks and waits refer to.
pub(crate) struct StreamShared<B: Streams> {
    id: u64,
    ordinal: u32,
    raw: B::Stream,
    /// The number of the last operation. Written by the owner; others order memory only by the
    /// numbers in its headers.
    last: AtomicU64,
    /// The last operation up to which all were seen to be over.
    over: AtomicU64,
    undone: Undone,
    users: Mutex<Vec<User>>,
    /// Points after operations of these numbers: those of `mark`, and of every operation once the
    /// stream is `awaited`.
    marks: Mutex<VecDeque<(u64, B::Point)>>,
    /// Whether another stream had to wait for more of it than it needed.
    awaited: AtomicBool,
}

/// [`StreamShared`] for the owner, who may number its operations.
pub(crate) struct Owned<'s, B: Streams>(&'s StreamShared<B>);

impl<B: Streams> Owned<'_, B> {
    #[inline]
    pub(crate) fn raw(&self) -> &B::Stream {
        &self.0.raw
    }

    /// Numbers everything enqueued since the last number.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        let number = self.0.last.load(Relaxed) + 1;
        self.0.last.store(number, Relaxed);
        number
    }
}

/// A communicator that used a stream; a wait polls its health.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) health: Arc<Health>,
    pub(crate) deadline: Duration,
    /// The first number that may be its work's.
    since: u64,
}

/// A point in a stream's order, for the host to wait for.
pub(crate) struct Awaited<B: Streams> {
    pub(crate) stream: Arc<StreamShared<B>>,
    pub(crate) point: B::Point,
    /// The awaited operation.
    wanted: u64,
    /// The last operation that is certainly before the point.
    reaches: u64,
}

impl<B: Streams> Clone for Awaited<B> {
    fn clone(&self) -> Self {
        let Self { stream, point, wanted, reaches } = self;
        let (stream, point) = (stream.clone(), point.clone());
        Self { stream, point, wanted: *wanted, reaches: *reaches }
    }
}

impl<B: Streams> Awaited<B> {
    /// The point after everything enqueued, also what others enqueued after the last mark.
    pub(crate) fn now(stream: &Arc<StreamShared<B>>) -> Result<Self> {
        let last = stream.last();
        Ok(Self::at(stream.clone(), B::point(&stream.raw)?, last))
    }

    /// A point that was made after operation `seq`.
    pub(crate) fn at(stream: Arc<StreamShared<B>>, point: B::Point, seq: u64) -> Self {
        Self { stream, point, wanted: seq, reaches: seq }
    }

    /// The point is reached, and no communicator of the stream has failed: its work up to here is
    /// over, and whoever finds that by [`was_over`](Self::was_over) sees what it wrote.
    pub(crate) fn note_over(&self) {
        self.stream.over.fetch_max(self.reaches, Release);
    }

    /// Whether the operation was seen to be over before, while no communicator of the stream had
    /// failed.
    pub(crate) fn was_over(&self) -> bool {
        self.wanted <= self.stream.over.load(Acquire)
    }

    /// Why the operation did not happen, although it is over.
    pub(crate) fn undone(&self) -> Option<Error> {
        B::undone(&self.point).or_else(|| self.stream.undone.of(self.wanted))
    }
}

impl<B: Streams> StreamCore<B> {
    pub(crate) fn open(ordinal: u32) -> Result<Self> {
        Ok(Self::of(ordinal, B::open(ordinal)?, 0))
    }

    /// A stream that already has `last` operations.
    pub(crate) fn of(ordinal: u32, raw: B::Stream, last: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Relaxed);
        let shared = Arc::new(StreamShared {
            id,
            ordinal,
            raw,
            last: AtomicU64::new(last),
            over: AtomicU64::new(0),
            undone: Undone::default(),
            users: Mutex::default(),
            marks: Mutex::default(),
            awaited: AtomicBool::new(false),
        });
        Self {
            shared,
            id,
            last_user: Cell::new(0),
            waited: RefCell::default(),
            takers: RefCell::default(),
            mode: Mode::Live,
            graph: None,
            asked: Cell::new(false),
            team: Cell::new(0),
        }
    }

    /// A stream on which a capture records.
    pub(crate) fn recording(ordinal: u32, raw: B::Stream) -> Self {
        Self { mode: Mode::Recorded, ..Self::of(ordinal, raw, 0) }
    }

    /// A stream that the device captures, for a graph that keeps `graph`.
    pub(crate) fn capturing(ordinal: u32, raw: B::Stream, graph: Arc<Capturable>) -> Self {
        Self { mode: Mode::Captured, graph: Some(graph), ..Self::of(ordinal, raw, 0) }
    }

    /// Refuses memory that the graph under construction does not keep.
    pub(crate) fn captures(&self, order: &Order<B>) -> Result<()> {
        let place = std::ptr::from_ref(order).addr();
        let is_kept = self.graph.as_ref().is_some_and(|graph| graph.memory.contains(&place));
        if is_kept {
            return Ok(());
        }
        Err(not_capturable("a step", CaptureFault::NotThePlans, Site::caller()))
    }

    /// Refuses a device communicator that may end before the graph under construction.
    #[cold]
    pub(crate) fn captures_of(&self, maker: Maker, of: &'static str, site: Site) -> Result<()> {
        match self.graph.as_ref().is_some_and(|graph| graph.makers.contains(&maker)) {
            true => Ok(()),
            false => Err(not_capturable("a kernel", CaptureFault::OtherDevComm { of }, site)),
        }
    }

    /// Refuses work that no graph can contain.
    pub(crate) fn may_capture(
        &self,
        operation: &'static str,
        fault: CaptureFault,
        site: Site,
    ) -> Result<()> {
        match self.is_captured() {
            true => Err(not_capturable(operation, fault, site)),
            false => Ok(()),
        }
    }

    /// Refuses an order with another stream: that one would be captured too.
    pub(crate) fn orders_others(&self, operation: &'static str, site: Site) -> Result<()> {
        self.may_capture(operation, CaptureFault::OtherStream, site)
    }

    /// Notes that a step of the program runs, or has ended.
    pub(crate) fn set_asked(&self, asked: bool) {
        self.asked.set(asked);
    }

    /// The plan of the operation being enqueued, if it orders its streams itself; otherwise 0.
    pub(crate) fn team(&self) -> u64 {
        self.team.get()
    }

    /// Enqueues for such a plan, until the result is dropped.
    pub(crate) fn teamed(&self, team: u64) -> impl Drop + use<'_, B> {
        Teamed(&self.team, self.team.replace(team))
    }

    /// Why a communicator's call cannot use this stream: it belongs to a step, and is captured.
    pub(crate) fn in_a_step(&self, operation: &'static str, site: Site) -> Option<Error> {
        let refused = self.is_captured() && self.asked.get();
        refused.then(|| not_capturable(operation, CaptureFault::Communicates, site))
    }

    /// Whether its work runs.
    #[inline]
    pub(super) fn is_live(&self) -> bool {
        self.mode == Mode::Live
    }

    /// Whether its work is recorded.
    pub(crate) fn records(&self) -> bool {
        self.mode == Mode::Recorded
    }

    /// Whether the device captures its work.
    #[inline]
    pub(crate) fn is_captured(&self) -> bool {
        self.mode == Mode::Captured
    }

    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    #[inline]
    pub(crate) fn ordinal(&self) -> u32 {
        self.shared.ordinal
    }

    #[inline]
    pub(crate) fn raw(&self) -> &B::Stream {
        &self.shared.raw
    }

    pub(crate) fn shared(&self) -> Arc<StreamShared<B>> {
        self.shared.clone()
    }

    /// The number of the last operation; 0 before the first.
    #[inline]
    pub(crate) fn last_seq(&self) -> u64 {
        self.shared.last.load(Relaxed)
    }

    /// Numbers everything enqueued since the last number.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        self.owned().number()
    }

    /// Marks the end of the last operation, if other streams wait for parts of this one and it is
    /// not marked. Without the mark they would wait for more.
    pub(crate) fn mark_if_awaited(&self) {
        let last = self.last_seq();
        if !self.shared.is_awaited() || self.shared.is_marked(last) {
            return;
        }
        match B::point(&self.shared.raw) {
            Ok(point) => self.shared.keep_mark(last, point),
            Err(error) => log::debug!("no mark after operation {last} of a stream: {error}"),
        }
    }

    /// The part that an operation needs, dereferenced once.
    #[inline]
    pub(crate) fn owned(&self) -> Owned<'_, B> {
        Owned(&self.shared)
    }

    /// Notes that a communicator uses this stream.
    #[inline]
    pub(crate) fn note(&self, health: &Arc<Health>, deadline: Duration) {
        if self.last_user.get() != health.id() {
            self.note_new(health, deadline);
        }
    }

    #[cold]
    fn note_new(&self, health: &Arc<Health>, deadline: Duration) {
        self.last_user.set(health.id());
        let since = self.last_seq() + 1;
        self.shared.note(User { health: health.clone(), deadline, since });
    }

    /// Takes out the record of uses of `of`, if there is one; [`keep_taker`](Self::keep_taker) puts
    /// it back.
    #[inline]
    pub(super) fn taker(&self, of: u64) -> Option<Arc<Taker<B>>> {
        let mut takers = self.takers.borrow_mut();
        let known = takers.iter().rposition(|taker| taker.of() == of)?;
        Some(takers.swap_remove(known))
    }

    #[inline]
    pub(super) fn keep_taker(&self, taker: Arc<Taker<B>>) {
        let mut takers = self.takers.borrow_mut();
        if takers.len() == TAKEN {
            takers.remove(0);
        }
        takers.push(taker);
    }

    /// A point after everything enqueued, also by others: it has a number of its own.
    pub(crate) fn mark(&self) -> Result<B::Point> {
        let number = self.number();
        let point = B::point(&self.shared.raw)?;
        self.shared.keep_mark(number, point.clone());
        Ok(point)
    }

    /// Makes later work wait for a point of `other`. A host wait here then waits for work enqueued
    /// there, so its communicators count here too, and the backend passes its errors on.
    pub(crate) fn wait_for(&self, other: &StreamShared<B>, point: &B::Point) -> Result<()> {
        B::wait_for(&self.shared.raw, point)?;
        let since = self.number();
        if !self.shared.knows_users_of(other) {
            for user in other.users() {
                self.shared.note(User { since, ..user });
            }
        }
        Ok(())
    }

    /// Makes later work wait for operation `seq` of `other`, unless earlier work here already does.
    pub(crate) fn wait_for_use(&self, other: &StreamShared<B>, seq: u64) -> Result<()> {
        let mut waited = self.waited.borrow_mut();
        let known = waited.iter().position(|(id, _)| *id == other.id());
        if known.is_some_and(|at| waited[at].1 >= seq) {
            return Ok(());
        }
        let (point, reaches) = other.point_after(seq)?;
        if reaches > seq && !other.is_marked(seq) {
            other.awaited.store(true, Relaxed);
        }
        self.wait_for(other, &point)?;
        match known {
            Some(at) => waited[at].1 = seq,
            None => {
                if waited.len() == REMEMBERED {
                    waited.remove(0);
                }
                waited.push((other.id(), seq));
            }
        }
        Ok(())
    }
}

#[cold]
fn not_capturable(operation: &'static str, fault: CaptureFault, site: Site) -> Error {
    NotCapturable { operation, fault, site }.into()
}

impl<B: Streams> StreamShared<B> {
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn raw(&self) -> &B::Stream {
        &self.raw
    }

    fn last(&self) -> u64 {
        self.last.load(Relaxed)
    }

    /// The first marked point after operation `seq`, else the point after everything so far; with
    /// the last operation that is certainly before it.
    fn point_after(&self, seq: u64) -> Result<(B::Point, u64)> {
        let marks = self.marks.lock();
        let marked = marks.iter().find(|(marked, _)| *marked >= seq);
        let marked = marked.map(|(marked, point)| (point.clone(), *marked));
        drop(marks);
        let last = self.last();
        marked.map_or_else(|| Ok((B::point(&self.raw)?, last)), Ok)
    }

    /// Whether another stream had to wait for more of it than it needed.
    #[inline]
    pub(crate) fn is_awaited(&self) -> bool {
        self.awaited.load(Relaxed)
    }

    /// Remembers the point after operation `number`.
    fn keep_mark(&self, number: u64, point: B::Point) {
        let mut marks = self.marks.lock();
        let oldest = match marks.len() {
            // The capacity is never exceeded.
            0 => {
                marks.reserve_exact(MARKS);
                None
            }
            MARKS => marks.pop_front(),
            _ => None,
        };
        marks.push_back((number, point));
        drop(marks);
        drop(oldest);
    }

    /// Whether there is a mark right after operation `seq`.
    fn is_marked(&self, seq: u64) -> bool {
        self.marks.lock().iter().any(|(marked, _)| (seq..=seq + 1).contains(marked))
    }

    /// The point for a host wait for operation `seq`.
    pub(crate) fn reach(self: &Arc<Self>, seq: u64) -> Result<Awaited<B>> {
        let (point, reaches) = self.point_after(seq)?;
        Ok(Awaited { stream: self.clone(), point, wanted: seq, reaches })
    }

    /// Notes a communicator, which warns the stream before its work may be stopped.
    fn note(self: &Arc<Self>, user: User) {
        let mut users = self.users.lock();
        let known = users.iter_mut().find(|known| known.health.id() == user.health.id());
        if let Some(known) = known {
            known.deadline = user.deadline;
            return;
        }
        let health = user.health.clone();
        users.push(user);
        drop(users);
        if B::ENDS_REACH_POINTS {
            let stream = Arc::downgrade(self);
            health.carried_by(stream);
        }
    }

    /// The last operation of the latest mark reached.
    fn last_marked(&self) -> u64 {
        let marks = self.marks.lock().clone();
        let reached =
            |(seq, point): &(u64, B::Point)| B::reached(point).unwrap_or(false).then_some(*seq);
        marks.iter().rev().find_map(reached).unwrap_or(0)
    }

    /// Whether all communicators that a wait for `other` has to poll are this stream's too. The
    /// locks are taken one after the other: another thread may compare the other way round.
    fn knows_users_of(&self, other: &Self) -> bool {
        let mut known = [None; FEW];
        let ended: Vec<User>;
        {
            let mut theirs = other.users.lock();
            ended = take_ended(&mut theirs);
            if theirs.len() > known.len() {
                return false;
            }
            for (known, user) in known.iter_mut().zip(theirs.iter()) {
                *known = Some((user.health.id(), user.deadline));
            }
        }
        drop(ended);
        let own = self.users.lock();
        let is_own = |(id, deadline)| {
            own.iter().any(|user| user.health.id() == id && user.deadline == deadline)
        };
        known.into_iter().flatten().all(is_own)
    }

    /// The communicators that a wait has to poll; ended ones are removed.
    pub(crate) fn users(&self) -> Vec<User> {
        let mut users = self.users.lock();
        let ended = take_ended(&mut users);
        let left = users.clone();
        drop(users);
        drop(ended);
        left
    }

    /// Whether no communicator that used it has failed, as far as a look tells.
    pub(crate) fn users_are_well(&self) -> bool {
        self.users().iter().all(|user| {
            user.health.look();
            user.health.is_well()
        })
    }

    /// Whether operation `seq` is known to be over.
    pub(crate) fn is_past(&self, seq: u64) -> bool {
        self.point_after(seq).and_then(|(point, _)| B::reached(&point)).unwrap_or(false)
    }
}

/// Takes communicators that have ended out of the list. One may hold the last of a user's value, so
/// the caller drops them without the lock.
fn take_ended(users: &mut Vec<User>) -> Vec<User> {
    users.extract_if(.., |user| user.health.is_over()).collect()
}

impl<B: Streams> Carrier for StreamShared<B> {
    fn is_cut(&self, by: &Health, why: &Error, asks: bool) {
        if asks && B::is_drained(&self.raw) {
            return;
        }
        let users = self.users();
        let since =
            users.iter().find(|user| user.health.id() == by.id()).map_or(1, |user| user.since);
        let marked = if asks { self.last_marked() } else { 0 };
        let over = self.over.load(Relaxed).max(marked);
        self.undone.add(by.id(), why, since.max(over + 1)..=self.last());
    }
}

impl<B: Backend> StreamCore<B> {
    /// Waits on the host for everything enqueued so far.
    pub(crate) fn idle(
        &self,
        within: wait::Within<'_>,
        operation: &'static str,
        site: Site,
    ) -> Result<()> {
        wait::until(&[Awaited::now(&self.shared())?], Some(within), operation, site)
    }
}

//! A stream without its device type: what buffers and communicators keep.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crate::Result;
use crate::backend::Streams;
use crate::communicator::Health;

/// How many marks a stream remembers for narrowing.
const MARKS: usize = 32;

/// The owner's side.
pub(crate) struct StreamCore<B: Streams> {
    shared: Arc<StreamShared<B>>,
    id: u64,
    /// The number of the last operation. Others learn numbers from the headers of memory only.
    last: Cell<u64>,
    /// The communicator that was noted last.
    last_user: Cell<u64>,
    /// Of other streams, up to which operation this one waits for them already.
    waited: RefCell<Vec<(u64, u64)>>,
}

/// How many communicators of another stream are compared without a list of them.
const FEW: usize = 8;

/// How many other streams are remembered.
const REMEMBERED: usize = 16;

/// What buffers, marks and waits refer to.
pub(crate) struct StreamShared<B: Streams> {
    id: u64,
    ordinal: u32,
    raw: B::Stream,
    users: Mutex<Vec<User>>,
    /// Points taken by `mark`, with the owner's sequence number.
    marks: Mutex<VecDeque<(u64, B::Point)>>,
}

/// A communicator that used a stream: whose health a wait polls.
#[derive(Clone)]
pub(crate) struct User {
    pub(crate) health: Arc<Health>,
    pub(crate) deadline: Duration,
}

impl<B: Streams> StreamCore<B> {
    pub(crate) fn open(ordinal: u32) -> Result<Self> {
        Ok(Self::of(ordinal, B::open(ordinal)?, 0))
    }

    /// A stream with so many operations.
    pub(crate) fn of(ordinal: u32, raw: B::Stream, last: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let id = NEXT.fetch_add(1, Relaxed);
        let shared = Arc::new(StreamShared {
            id,
            ordinal,
            raw,
            users: Mutex::default(),
            marks: Mutex::default(),
        });
        let (last, last_user) = (Cell::new(last), Cell::new(0));
        Self { shared, id, last, last_user, waited: RefCell::default() }
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

    /// The communicator that was noted last.
    #[inline]
    pub(crate) fn last_user(&self) -> u64 {
        self.last_user.get()
    }

    /// The number of the last operation; 0 before the first.
    #[inline]
    pub(crate) fn last_seq(&self) -> u64 {
        self.last.get()
    }

    /// Numbers what was enqueued since the last number.
    #[inline]
    pub(crate) fn number(&self) -> u64 {
        let number = self.last.get() + 1;
        self.last.set(number);
        number
    }

    /// Remembers that a communicator uses this stream.
    #[inline]
    pub(crate) fn note(&self, health: &Arc<Health>, deadline: Duration) {
        if self.last_user.get() != health.id() {
            self.note_new(health, deadline);
        }
    }

    #[cold]
    fn note_new(&self, health: &Arc<Health>, deadline: Duration) {
        self.last_user.set(health.id());
        self.shared.note(User { health: health.clone(), deadline });
    }

    pub(crate) fn mark(&self) -> Result<B::Point> {
        let point = B::point(&self.shared.raw)?;
        let mut marks = self.shared.marks.lock().unwrap_or_else(PoisonError::into_inner);
        match marks.len() {
            // All that it will ever need.
            0 => marks.reserve_exact(MARKS),
            MARKS => drop(marks.pop_front()),
            _ => {}
        }
        marks.push_back((self.last_seq(), point.clone()));
        Ok(point)
    }

    /// Makes what is enqueued next wait for a point of `other`. Who waits here waits for what was
    /// enqueued there: its communicators count here too, and the backend hands on its errors.
    pub(crate) fn wait_for(&self, other: &StreamShared<B>, point: &B::Point) -> Result<()> {
        B::wait_for(&self.shared.raw, point)?;
        self.number();
        if !self.shared.knows_users_of(other) {
            for user in other.users() {
                self.shared.note(user);
            }
        }
        Ok(())
    }

    /// Makes what is enqueued next wait for operation `seq` of `other`, unless something enqueued here
    /// before does already.
    pub(crate) fn wait_for_use(&self, other: &StreamShared<B>, seq: u64) -> Result<()> {
        let mut waited = self.waited.borrow_mut();
        let known = waited.iter().position(|(id, _)| *id == other.id());
        if known.is_some_and(|at| waited[at].1 >= seq) {
            return Ok(());
        }
        self.wait_for(other, &other.point_after(seq)?)?;
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

impl<B: Streams> StreamShared<B> {
    #[inline]
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn raw(&self) -> &B::Stream {
        &self.raw
    }

    /// The first marked point after operation `seq`, else the point after everything so far.
    pub(crate) fn point_after(&self, seq: u64) -> Result<B::Point> {
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let marked = marks.iter().find(|(marked, _)| *marked >= seq);
        let marked = marked.map(|(_, point)| point.clone());
        drop(marks);
        marked.map_or_else(|| B::point(&self.raw), Ok)
    }

    /// Remembers a communicator.
    fn note(&self, user: User) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        match users.iter_mut().find(|known| known.health.id() == user.health.id()) {
            Some(known) => known.deadline = user.deadline,
            None => users.push(user),
        }
    }

    /// Whether all communicators that a wait for `other` has to look at are this stream's too. One lock
    /// after the other: somebody may ask the other way round.
    fn knows_users_of(&self, other: &Self) -> bool {
        let mut known = [None; FEW];
        {
            let mut theirs = other.users.lock().unwrap_or_else(PoisonError::into_inner);
            theirs.retain(|user| !user.health.is_over());
            if theirs.len() > known.len() {
                return false;
            }
            for (known, user) in known.iter_mut().zip(theirs.iter()) {
                *known = Some((user.health.id(), user.deadline));
            }
        }
        let own = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let is_own = |(id, deadline)| {
            own.iter().any(|user| user.health.id() == id && user.deadline == deadline)
        };
        known.into_iter().flatten().all(is_own)
    }

    /// The communicators that a wait has to look at; those that are over are forgotten.
    pub(crate) fn users(&self) -> Vec<User> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        users.retain(|user| !user.health.is_over());
        users.clone()
    }

    /// Whether operation `seq` is over, as far as it can be told.
    pub(crate) fn is_past(&self, seq: u64) -> bool {
        self.point_after(seq).and_then(|point| B::reached(&point)).unwrap_or(false)
    }
}

//! A communicator's journal: its last groups of operations, each with when the host enqueued it and
//! when its stream began and ended it.

use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde_json::{Value, json};

use super::clock::{Clock, now};
use super::flight::{self, FlightRecord};
use super::kept::{self, Recorded};
use super::timeline::{Args, place};
use super::{KEPT, timeline};
use crate::Result;
use crate::backend::{Backend, Op, Refusal};
use crate::config::CommConfig;
use crate::error::{Call, Operation, Site};
use crate::lock::Mutex;
use crate::stream::StreamCore;

/// Whose journal it is.
pub(crate) struct Who {
    /// The rank that a timeline shows it under, which children inherit.
    pub(crate) row: u32,
    pub(crate) name: &'static str,
    /// Its id in this process.
    pub(crate) number: u64,
    /// Its id, the same on all ranks.
    pub(crate) id: u64,
    /// The rows of its ranks.
    pub(crate) rows: Arc<[u32]>,
    /// This rank.
    pub(crate) rank: u32,
}

pub(crate) struct Journal<B: Backend> {
    pub(super) who: Who,
    pub(super) deadline: std::time::Duration,
    kept: usize,
    ordinal: u32,
    /// The device's clock for what is enqueued from now on; `None` if the device has no times.
    clock: Mutex<Option<Arc<Clock<B>>>>,
    /// When the communicator failed; 0 before. What was running then has failed.
    failed: AtomicU64,
    pub(super) state: Mutex<State<B>>,
}

pub(super) struct State<B: Backend> {
    pub(super) entries: VecDeque<Entry<B>>,
    /// How many collectives there were, refused ones included, as on the other ranks.
    collectives: u64,
    /// How many groups with transfers there were.
    transfers: u64,
    /// How many operations there were.
    operations: u64,
    next: u64,
}

/// What was enqueued together.
pub(super) struct Entry<B: Backend> {
    number: u64,
    what: String,
    pub(super) site: Site,
    plan: Option<Arc<str>>,
    /// Empty for work that is not an operation of the communicator.
    pub(super) calls: Vec<Recording>,
    stream: u64,
    pub(super) created: u64,
    clock: Option<Arc<Clock<B>>>,
    start: Stage<B>,
    end: Stage<B>,
    /// Tells whether it happened, once it is over.
    point: Option<B::Point>,
    /// It is over, and did not happen.
    pub(super) failed: bool,
}

/// An operation of a group.
pub(super) struct Recording {
    pub(super) call: Call,
    /// The elements that it reads and writes.
    pub(super) lens: [Option<usize>; 2],
    pub(super) number: u64,
    /// Its number among the collectives, or the number of its group among those with transfers.
    pub(super) turn: u64,
    /// How many collectives there were.
    pub(super) collectives: u64,
}

/// When a stream reaches a point.
enum Stage<B: Backend> {
    /// The device has no time for it, or not yet.
    Unknown,
    Due(B::Time),
    At(u64),
}

impl<B: Backend> Entry<B> {
    pub(super) fn started(&self) -> Option<u64> {
        self.start.known()
    }

    pub(super) fn completed(&self) -> Option<u64> {
        self.end.known().filter(|_| !self.failed)
    }

    fn args(&self, communicator: &str) -> Args {
        let mut args = Args::new();
        args.insert("communicator".to_owned(), communicator.into());
        if let Some(plan) = &self.plan {
            args.insert("plan".to_owned(), (&**plan).into());
        }
        args.insert("at".to_owned(), place(self.site).into());
        args.insert("enqueued_us".to_owned(), json!(self.created as f64 / 1e3));
        match self.calls.as_slice() {
            [] => {}
            [only] => args.extend(described(&only.call)),
            several => {
                let of = |one: &Recording| {
                    let mut all = described(&one.call);
                    all.insert("operation".to_owned(), one.call.operation.name().into());
                    all.insert("at".to_owned(), place(one.call.site).into());
                    Value::Object(all)
                };
                args.insert("operations".to_owned(), several.iter().map(of).collect());
            }
        }
        args
    }
}

fn described(call: &Call) -> Args {
    let mut args = Args::new();
    args.insert("count".to_owned(), call.count.into());
    args.insert("dtype".to_owned(), call.dtype.to_string().into());
    for (name, rank) in [("peer", call.peer), ("root", call.root)] {
        if let Some(rank) = rank {
            args.insert(name.to_owned(), rank.index().into());
        }
    }
    if let Some(reduction) = call.reduction {
        args.insert("reduction".to_owned(), reduction.to_string().into());
    }
    args
}

impl<B: Backend> Stage<B> {
    fn known(&self) -> Option<u64> {
        if let Self::At(at) = self { Some(*at) } else { None }
    }

    /// Looks whether the point is reached; returns when, the first time that it is.
    fn look(&mut self, clock: &Clock<B>) -> Option<u64> {
        let Self::Due(time) = self else { return None };
        match clock.at(time) {
            Ok(None) => None,
            Ok(Some(at)) => {
                *self = Self::At(at);
                Some(at)
            }
            // The device failed: it is never known.
            Err(_) => {
                *self = Self::Unknown;
                None
            }
        }
    }
}

impl<B: Backend> Journal<B> {
    /// The journal of a communicator, if the environment or its configuration asks for one.
    pub(crate) fn new(who: Who, ordinal: u32, config: &CommConfig) -> Option<Arc<Self>> {
        let kept = match (config.flight_record, super::is_on()) {
            (0, false) => return None,
            (0, true) => KEPT,
            (kept, _) => kept as usize,
        };
        let state = State {
            entries: VecDeque::new(),
            collectives: 0,
            transfers: 0,
            operations: 0,
            next: 0,
        };
        let journal = Arc::new(Self {
            who,
            deadline: config.deadline,
            kept,
            ordinal,
            clock: Mutex::new(Clock::new(ordinal).map(Arc::new)),
            failed: AtomicU64::new(0),
            state: Mutex::new(state),
        });
        let recorded: Arc<dyn Recorded> = journal.clone();
        kept::keep(&recorded);
        Some(journal)
    }

    pub(super) fn ordinal(&self) -> u32 {
        self.ordinal
    }

    /// Operations are about to be enqueued.
    pub(crate) fn begins(&self, stream: &StreamCore<B>, ops: &[Op<'_, B>]) -> u64 {
        let Some(first) = ops.first() else { return u64::MAX };
        let lens = |op: &Op<'_, B>| {
            let (read, written) = op.sides();
            [read.map(|span| span.len()), written.map(|span| span.len())]
        };
        let calls: Vec<_> = ops.iter().map(|op| (op.call(), lens(op))).collect();
        self.begin(stream, named(&calls), first.call().site, &calls)
    }

    /// Other work is about to be enqueued: a step of a plan, a kernel, a graph.
    pub(crate) fn begins_work(&self, stream: &StreamCore<B>, what: &str, site: Site) -> u64 {
        self.begin(stream, what.to_owned(), site, &[])
    }

    fn begin(
        &self,
        stream: &StreamCore<B>,
        what: String,
        site: Site,
        calls: &[(Call, [Option<usize>; 2])],
    ) -> u64 {
        let plan = PLAN.with_borrow(Clone::clone);
        let what = match &plan {
            Some(plan) => format!("{plan}: {what}"),
            None => what,
        };
        let created = now();
        let clock = self.clock.lock().clone();
        let start = self.stage(stream).filter(|_| clock.is_some());
        let start = start.map_or(Stage::Unknown, |(_, time)| Stage::Due(time));
        let mut state = self.state.lock();
        if state.entries.len() >= self.kept {
            self.look_at(&mut state);
            // Work of the program's own, which a timeline brings, goes before operations.
            let is_own = |entry: &Entry<B>| entry.calls.is_empty();
            let own = timeline().and_then(|_| state.entries.iter().position(is_own));
            state.entries.remove(own.unwrap_or(0));
        }
        let number = state.next;
        state.next += 1;
        let calls = state.number(calls);
        let (stream, end) = (stream.id(), Stage::Unknown);
        let (point, failed) = (None, false);
        let entry = Entry {
            number,
            what,
            site,
            plan,
            calls,
            stream,
            created,
            clock,
            start,
            end,
            point,
            failed,
        };
        if let Some(timeline) = timeline() {
            let args = entry.args(self.who.name);
            timeline.begin(self.who.row, None, (&entry.what, created), &args);
        }
        state.entries.push_back(entry);
        number
    }

    /// What [`begins`](Self::begins) is enqueued, or could not be.
    pub(crate) fn enqueued<T>(&self, stream: &StreamCore<B>, number: u64, outcome: &Result<T>) {
        if number == u64::MAX {
            return;
        }
        let end = self.stage(stream);
        let mut state = self.state.lock();
        if let Some(timeline) = timeline() {
            timeline.end(self.who.row, None, now());
        }
        // It is near the end.
        let entry = state.entries.iter_mut().rev().find(|entry| entry.number == number);
        let Some(entry) = entry else { return };
        match (outcome, end) {
            (Ok(_), Some((point, time))) => {
                (entry.point, entry.end) = (Some(point), Stage::Due(time));
            }
            (Ok(_), None) => {}
            (Err(_), _) => entry.failed = true,
        }
    }

    /// The stream's time after all that is enqueued. Captured work has none: it runs later.
    fn stage(&self, stream: &StreamCore<B>) -> Option<(B::Point, B::Time)> {
        if self.clock.lock().is_none() || stream.is_captured() {
            return None;
        }
        B::timed(stream.raw()).ok()
    }

    /// Counts operations that this rank refused, which are its turns.
    pub(crate) fn refused(&self, refusals: &[Refusal]) {
        let are = refusals.iter().filter(|refusal| matches!(refusal, Refusal::Collective));
        self.state.lock().collectives += are.count() as u64;
    }

    fn look_at(&self, state: &mut State<B>) {
        let timeline = timeline();
        let (row, name) = (self.who.row, self.who.name);
        let failed = Some(self.failed.load(Relaxed)).filter(|&at| at != 0);
        for entry in &mut state.entries {
            let Some(clock) = entry.clock.clone() else { continue };
            let on = Some(entry.stream);
            if let (Some(at), Some(timeline)) = (entry.start.look(&clock), timeline) {
                timeline.begin(row, on, (&entry.what, at), &entry.args(name));
            }
            if let Some(at) = entry.end.look(&clock) {
                entry.failed |= entry.point.take().is_some_and(|point| B::undone(&point).is_some());
                entry.failed |= failed.is_some_and(|failed| failed <= at);
                if let (Some(timeline), true) = (timeline, entry.start.known().is_some()) {
                    timeline.end(row, on, at);
                }
            }
            let is_running = entry.start.known().is_some() && entry.end.known().is_none();
            entry.failed |= is_running && failed.is_some();
        }
    }
}

impl<B: Backend> State<B> {
    fn number(&mut self, calls: &[(Call, [Option<usize>; 2])]) -> Vec<Recording> {
        let transfers = self.transfers;
        let mut any = false;
        let each = calls.iter().map(|&(call, lens)| {
            self.operations += 1;
            let turn = match call.operation {
                Operation::Collective(_) => {
                    self.collectives += 1;
                    self.collectives
                }
                _ => {
                    any = true;
                    transfers + 1
                }
            };
            let (number, collectives) = (self.operations, self.collectives);
            Recording { call, lens, number, turn, collectives }
        });
        let numbered = each.collect();
        self.transfers += u64::from(any);
        numbered
    }
}

impl<B: Backend> Recorded for Journal<B> {
    fn row(&self) -> u32 {
        self.who.row
    }

    fn whole(self: Arc<Self>) -> Arc<dyn Any + Send + Sync> {
        self
    }

    fn look(&self) {
        self.look_at(&mut self.state.lock());
    }

    fn renew(&self) {
        let is_old = self.clock.lock().as_ref().is_some_and(|clock| clock.is_old());
        // The device is asked without a lock. If it does not answer, the old clock stays.
        if let Some(clock) = is_old.then(|| Clock::new(self.ordinal)).flatten() {
            *self.clock.lock() = Some(Arc::new(clock));
        }
    }

    fn fails(&self) {
        let _ = self.failed.compare_exchange(0, now(), Relaxed, Relaxed);
    }

    fn add_to(&self, record: &mut FlightRecord) {
        flight::add(self, record);
    }
}

impl<B: Backend> Drop for Journal<B> {
    fn drop(&mut self) {
        self.look();
    }
}

/// `all_reduce`, `2 x send, recv`
fn named(calls: &[(Call, [Option<usize>; 2])]) -> String {
    let mut names: Vec<(&str, usize)> = Vec::new();
    for (call, _) in calls {
        let name = call.operation.name();
        match names.iter_mut().find(|(known, _)| *known == name) {
            Some((_, times)) => *times += 1,
            None => names.push((name, 1)),
        }
    }
    let each = names.iter().map(|(name, times)| match times {
        1 => (*name).to_owned(),
        _ => format!("{times} x {name}"),
    });
    each.collect::<Vec<_>>().join(", ")
}

thread_local! {
    /// The plan whose steps this thread enqueues.
    static PLAN: RefCell<Option<Arc<str>>> = const { RefCell::new(None) };
}

/// Names a plan whose steps are enqueued while this lives.
pub(crate) struct InPlan(());

/// Names the plan whose steps this thread enqueues from now on. Never inlined, as runs that are not
/// recorded are short.
#[cold]
#[inline(never)]
pub(crate) fn in_plan(name: &str) -> InPlan {
    PLAN.set(Some(name.into()));
    InPlan(())
}

/// Whether this thread enqueues a plan's steps, which are recorded as such.
pub(super) fn is_in_plan() -> bool {
    PLAN.with_borrow(Option::is_some)
}

impl Drop for InPlan {
    #[cold]
    #[inline(never)]
    fn drop(&mut self) {
        PLAN.set(None);
    }
}

//! The thread that makes MPI's calls.

use std::collections::VecDeque;
use std::sync::{Condvar, PoisonError};
use std::time::{Duration, Instant};

use super::mpi::{self, Carried};
use super::{Link, Message, Spot};
use crate::lock::{self, Mutex, MutexGuard};
use crate::quiet::Quiet;

pub(crate) use super::mpi::adopt;
pub(in crate::host) use super::scratch::Scratch;

/// How many messages to one process are on their way: one after the other they arrive early, and
/// are used while they are in the cache.
const AT_ONCE: usize = 4;

/// How long the thread looks for news before it rests. It does not yield, which costs whole time
/// slices on a busy machine.
const LOOKS: Duration = Duration::from_micros(200);
const REST: Duration = Duration::from_micros(50);

/// A rest with nothing on its way but what nobody waits for.
const LONG_REST: Duration = Duration::from_millis(10);

static DESK: Mutex<Desk> =
    Mutex::new(Desk { stage: Stage::Idle, orders: VecDeque::new(), patience: None });

/// Tells the thread of orders, and whoever waits of its end.
static NEWS: Condvar = Condvar::new();

struct Desk {
    stage: Stage,
    orders: VecDeque<Order>,
    /// How long MPI may take to end, if a process may have left it already.
    patience: Option<Duration>,
}

enum Stage {
    Idle,
    Starts,
    Runs,
    Fails(String),
    /// The process exits.
    Ends,
    Ended,
}

enum Order {
    Carry(Message),
    Abandon { comm: u64, rank: Option<u32> },
}

/// Has MPI start. Returns this process's places in its communicators once it has.
pub(in crate::host) fn start() -> Result<Option<Vec<Spot>>, String> {
    let mut desk = DESK.lock();
    match &desk.stage {
        Stage::Idle => {
            let thread = std::thread::Builder::new().name("typed-nccl mpi".to_owned());
            thread.spawn(run).map_err(|error| format!("there is no thread for MPI: {error}"))?;
            desk.stage = Stage::Starts;
            Ok(None)
        }
        Stage::Starts => Ok(None),
        Stage::Runs => Ok(Some(mpi::spots())),
        Stage::Fails(why) => Err(why.clone()),
        Stage::Ends | Stage::Ended => Err("this process ends".to_owned()),
    }
}

/// Has a message carried.
pub(in crate::host) fn carry(message: Message) {
    order(Order::Carry(message));
}

/// Waits no longer for the messages of a communicator, or of one rank in it.
pub(in crate::host) fn abandon(comm: u64, rank: Option<u32>) {
    order(Order::Abandon { comm, rank });
}

/// Notes that a process may have left MPI, which may take so long to end.
pub(in crate::host) fn lose(patience: Duration) {
    let known = &mut DESK.lock().patience;
    *known = Some(known.map_or(patience, |known| known.min(patience)));
}

fn order(order: Order) {
    let mut desk = DESK.lock();
    if matches!(desk.stage, Stage::Runs) {
        desk.orders.push_back(order);
        NEWS.notify_all();
    }
}

fn run() {
    let _quiet = Quiet::enter();
    let is_ours = match mpi::begin() {
        Ok(is_ours) => is_ours,
        Err(why) => return DESK.lock().stage = Stage::Fails(why),
    };
    DESK.lock().stage = Stage::Runs;
    if is_ours {
        crate::exit::at_last(end);
    }
    let (mut courier, mut since) = (Courier::default(), Instant::now());
    loop {
        let mut desk = DESK.lock();
        while desk.orders.is_empty() && matches!(desk.stage, Stage::Runs) {
            if courier.is_idle() {
                desk = lock::wait(&NEWS, desk);
                continue;
            }
            if since.elapsed() > LOOKS {
                desk = rest(desk, if courier.waits() { REST } else { LONG_REST });
            }
            break;
        }
        if matches!(desk.stage, Stage::Ends) {
            break;
        }
        let orders = std::mem::take(&mut desk.orders);
        drop(desk);
        let is_news = !orders.is_empty();
        for order in orders {
            match order {
                Order::Carry(message) => courier.take(message),
                Order::Abandon { comm, rank } => courier.abandon(comm, rank),
            }
        }
        if courier.progress() || is_news {
            since = Instant::now();
        }
    }
    mpi::end();
    DESK.lock().stage = Stage::Ended;
    NEWS.notify_all();
}

/// Ends MPI when the process exits, which waits for the other processes to do so. It would wait
/// forever for one that has died.
fn end() {
    let mut desk = DESK.lock();
    if desk.patience == Some(Duration::ZERO) || !matches!(desk.stage, Stage::Runs) {
        return;
    }
    desk.stage = Stage::Ends;
    NEWS.notify_all();
    let (started, patience) = (Instant::now(), desk.patience.unwrap_or(Duration::MAX));
    while !matches!(desk.stage, Stage::Ended) && started.elapsed() < patience {
        desk = rest(desk, Duration::from_millis(100));
    }
}

fn rest(desk: MutexGuard<'static, Desk>, at_most: Duration) -> MutexGuard<'static, Desk> {
    NEWS.wait_timeout(desk, at_most).unwrap_or_else(PoisonError::into_inner).0
}

#[derive(Default)]
struct Courier {
    carried: Carried,
    /// What is carried, by request.
    messages: Vec<Carry>,
    /// Sends that come after others to the same process.
    later: VecDeque<Message>,
}

/// A message on its way.
struct Carry {
    message: Message,
    is_abandoned: bool,
}

impl Courier {
    fn is_idle(&self) -> bool {
        self.messages.is_empty()
    }

    /// Whether somebody waits for a message.
    fn waits(&self) -> bool {
        self.messages.iter().any(|carry| !carry.is_abandoned)
    }

    fn take(&mut self, message: Message) {
        let is_later = |later: &Message| later.link == message.link;
        if message.is_sent && (self.later.iter().any(is_later) || !self.has_room(message.link)) {
            return self.later.push_back(message);
        }
        self.start(message);
    }

    fn has_room(&self, to: Link) -> bool {
        let is_sent = |carry: &&Carry| {
            carry.message.is_sent && carry.message.link == to && !carry.is_abandoned
        };
        self.messages.iter().filter(is_sent).count() < AT_ONCE
    }

    fn start(&mut self, mut message: Message) {
        // SAFETY: the message keeps its memory, and stays here until it is complete. It is scratch
        // memory, or what the operation that waits for the message reads or writes.
        match unsafe { self.carried.start(&message) } {
            Ok(()) => self.messages.push(Carry { message, is_abandoned: false }),
            Err(why) => {
                if let Some(then) = message.then.take() {
                    then(Err(why));
                }
            }
        }
    }

    /// Completes what MPI has carried. Returns whether there was anything.
    fn progress(&mut self) -> bool {
        if self.messages.is_empty() {
            return false;
        }
        let (completed, how) = self.carried.completed();
        let over = completed.into_iter().map(|at| self.messages.swap_remove(at).message);
        let mut over: Vec<_> = over.collect();
        // In the order in which they were asked for.
        over.sort_by_key(|message| message.number);
        for then in over.iter_mut().filter_map(|message| message.then.take()) {
            then(how.clone());
        }
        if !over.is_empty() {
            self.start_later();
        }
        !over.is_empty()
    }

    /// Starts the sends that have waited for others.
    fn start_later(&mut self) {
        let mut at = 0;
        while let Some(to) = self.later.get(at).map(|message| message.link) {
            match self.has_room(to) {
                true => {
                    let message = self.later.remove(at);
                    message.into_iter().for_each(|message| self.start(message));
                }
                false => at += 1,
            }
        }
    }

    fn abandon(&mut self, comm: u64, rank: Option<u32>) {
        let is_of = |message: &Message| {
            message.comm == comm && rank.is_none_or(|rank| message.rank == rank)
        };
        let mut over = Vec::new();
        self.later.retain_mut(|message| {
            let is_of = is_of(message);
            over.extend(if is_of { message.then.take() } else { None });
            !is_of
        });
        for (at, carry) in self.messages.iter_mut().enumerate() {
            if !carry.is_abandoned && is_of(&carry.message) {
                carry.is_abandoned = true;
                over.extend(carry.message.then.take());
                if !carry.message.is_sent {
                    self.carried.cancel(at);
                }
            }
        }
        for then in over {
            then(Err("its communicator ended".to_owned()));
        }
        self.start_later();
    }
}

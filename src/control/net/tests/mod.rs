//! Many nodes in one process, over loopback.

mod bytes;
mod deaths;
mod exchanges;
mod meddled;
mod meets;
mod processes;
mod unauthenticated;
mod wires;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::fuzz::{self, Dice};
use super::hub::{Command, Hub, NodeKey};
use super::ident::{self, CommId};
use super::job::Job;
use super::node::Meet;
use super::proof::{self, CLAIM, Claim, JobName, Proof, Purpose, Secret, VERDICT, Version};
use super::unique::BootstrapHandle;
use super::{Joiner, next_node};
use crate::backend::Listener;
use crate::communicator::{Health, Limit};
use crate::control::{Control, FINISH, Meeting, Parts, Patience, Topic};
use crate::error::{Deadline, Error, Site};
use crate::{Rank, Result};

const LIMIT: Duration = Duration::from_secs(20);

fn given(time: Duration) -> Limit {
    Limit { time, of: Deadline::Call }
}

/// Peers see a separate process.
fn process() -> Arc<Hub> {
    Hub::start(Duration::from_secs(5)).expect("a listener and a thread")
}

fn random() -> u64 {
    u64::from_le_bytes(ident::random().expect("random bytes"))
}

fn place(hub: &Arc<Hub>) -> BootstrapHandle {
    let mut place = BootstrapHandle::new(hub.addresses.clone()).expect("random bytes");
    place.secret = Secret::of_text("test").public();
    place.open(hub, None);
    place
}

/// Claims a rank at a rendezvous, with this secret; what was said, and the verdict.
fn claim(
    place: &BootstrapHandle,
    from: u32,
    version: Version,
    secret: &Secret,
) -> (TcpStream, Proof, [u8; VERDICT]) {
    let claim = Claim { version, id: place.id, purpose: Purpose::Meet, from, to: 0 };
    fuzz::come(place, &claim, secret).expect("a verdict")
}

struct Node {
    control: Control,
    meeting: Arc<Meeting>,
    key: NodeKey,
    hub: Arc<Hub>,
    health: Health,
}

impl Node {
    fn join(hub: &Arc<Hub>, place: &BootstrapHandle, rank: usize, size: usize) -> Self {
        Self::try_join(hub, place, rank, size, random()).expect("it can look for the others")
    }

    fn try_join(
        hub: &Arc<Hub>,
        place: &BootstrapHandle,
        rank: usize,
        size: usize,
        process: u64,
    ) -> Result<Self> {
        let meet = place.meet("here".to_owned());
        let (hub, key) = (hub.clone(), next_node());
        let joiner = Joiner::of(hub.clone(), rank, size, process)?;
        let meeting = joiner.join(key, meet, place.secret.clone())?;
        Ok(Self::of(meeting, key, hub, rank))
    }

    fn of(meeting: Arc<Meeting>, key: NodeKey, hub: Arc<Hub>, rank: usize) -> Self {
        let control = Control::new(meeting.clone(), Rank::at(rank).0);
        let health = Health::new("World", Rank::at(rank));
        Self { control, meeting, key, hub, health }
    }

    fn exchange(&self, topic: Topic, bytes: &[u8], limit: Duration) -> Result<Parts> {
        let site = Site::caller();
        let ticket = self.control.post(topic, site, bytes.to_vec());
        let patience = Patience::new(&self.health, given(limit), topic, site);
        self.control.collect(ticket, &patience)
    }

    /// Tries to meet the others until the error of a passed deadline says this.
    fn waits_until_told(&self, words: &[&str]) {
        let started = Instant::now();
        loop {
            let limit = Duration::from_millis(100);
            let error = self.exchange("init", b"", limit).expect_err("they do not meet");
            let text = error.to_string();
            if words.iter().all(|word| text.contains(word)) {
                return;
            }
            let may_wait = matches!(error, Error::Timeout(_)) && started.elapsed() < LIMIT;
            assert!(may_wait, "{words:?}: {text}");
        }
    }

    fn kill(&self) {
        self.hub.send(Command::Kill(self.key));
    }
}

/// `size` ranks, each of which peers see in a separate process.
fn ranks(size: usize) -> Vec<Node> {
    let hub = process();
    let place = place(&hub);
    (0..size).map(|rank| Node::join(&hub, &place, rank, size)).collect()
}

/// Runs `body` for each rank, on a thread of its own; the results.
fn each<T: Send>(nodes: &[Node], body: impl Fn(usize, &Node) -> T + Sync) -> Vec<T> {
    // `Node` is `!Sync`: moves a reference to the one thread that uses it.
    struct Only<'a>(&'a Node);
    // SAFETY: each node is used by one thread, which the scope joins.
    unsafe impl Send for Only<'_> {}
    thread::scope(|scope| {
        let body = &body;
        let run = |(rank, node)| {
            let only = Only(node);
            scope.spawn(move || {
                let only = only;
                body(rank, only.0)
            })
        };
        let threads: Vec<_> = nodes.iter().enumerate().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("no panic")).collect()
    })
}

fn all_well(results: Vec<Result<Parts>>) -> Vec<Parts> {
    results.into_iter().map(|result| result.expect("all ranks take part")).collect()
}

impl Node {
    fn by(
        hub: &Arc<Hub>,
        rank: usize,
        size: usize,
        come: impl FnOnce(&Joiner) -> Result<Arc<Meeting>>,
    ) -> Self {
        let joiner = Joiner::of(hub.clone(), rank, size, random()).expect("a rank");
        let meeting = come(&joiner).expect("it can look for the others");
        Self::of(meeting, 0, hub.clone(), rank)
    }
}

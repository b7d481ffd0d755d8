//! Thousands of ranks in one process, over loopback: how long the control plane takes at that size.

use std::thread;
use std::time::{Duration, Instant};

use super::hub::{Command, Hub};
use super::ident::{self, CommId};
use super::node::Meet;
use super::proof::Secret;
use super::{Comer, next_node};
use crate::communicator::Health;
use crate::control::{Control, Ticket, Topic};
use crate::error::{Error, Site};
use crate::{Rank, Result};

/// How long one step may take.
const LIMIT: Duration = Duration::from_secs(300);

/// What took how long.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Until every rank knows every other one.
    pub connect: Duration,
    /// A barrier, several times.
    pub barriers: Vec<Duration>,
    /// From the death of rank 0 until every other rank knows of it.
    pub death: Duration,
}

/// So many ranks meet, wait for each other, and lose rank 0.
///
/// # Errors
/// They do not meet.
pub fn simulate(ranks: usize) -> Result<Simulated> {
    let hub = Hub::start(Duration::from_secs(60))?;
    let (id, secret) = (CommId(ident::random()?), Secret::of_bytes(ident::random()?));
    hub.send(Command::Meet { id, secret: secret.clone(), door: None, owner: None });
    let started = Instant::now();
    let mut nodes = Vec::with_capacity(ranks);
    for rank in 0..ranks {
        let (key, addresses) = (next_node(), vec![loopback(&hub)]);
        let meet = Meet { id, addresses, name: "loopback".to_owned(), may_be_stale: false };
        // Each in a process of its own, as far as the others see.
        let process = u64::from_le_bytes(ident::random()?);
        let meeting =
            Comer::of(hub.clone(), rank, ranks, process)?.come(key, meet, secret.clone())?;
        let rank = Rank::at(rank);
        nodes.push((key, Control::new(meeting, rank.0), Health::new("World", rank)));
    }
    // Ranks say of themselves what differs.
    exchange(&nodes, "init", |rank| rank.to_le_bytes().to_vec())
        .into_iter()
        .try_for_each(|outcome| outcome)?;
    let connect = started.elapsed();
    let mut barriers = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        exchange(&nodes, "barrier", |_| Vec::new()).into_iter().try_for_each(|outcome| outcome)?;
        barriers.push(started.elapsed());
    }
    let root = nodes.remove(0);
    let started = Instant::now();
    hub.send(Command::Kill(root.0));
    for outcome in exchange(&nodes, "barrier", |_| Vec::new()) {
        match outcome {
            Err(Error::PeerFailed(failed)) if failed.lost == [Rank(0)] => {}
            Err(error) => return Err(error),
            Ok(()) => return Err(Error::other("a rank did not notice that rank 0 is dead")),
        }
    }
    Ok(Simulated { connect, barriers, death: started.elapsed() })
}

fn loopback(hub: &Hub) -> std::net::SocketAddr {
    let known = hub.addresses.iter().find(|address| address.ip().is_loopback());
    let port = hub.addresses.first().map_or(0, |address| address.port());
    known.copied().unwrap_or_else(|| ([127, 0, 0, 1], port).into())
}

/// An exchange of all ranks, by one thread; how it ended for each.
fn exchange(
    nodes: &[(u64, Control, Health)],
    topic: Topic,
    part: impl Fn(usize) -> Vec<u8>,
) -> Vec<Result<()>> {
    let (started, site) = (Instant::now(), Site::caller());
    let post = |(rank, (_, control, _)): (usize, &(u64, Control, Health))| {
        control.post(topic, site, part(rank))
    };
    let tickets: Vec<Ticket> = nodes.iter().enumerate().map(post).collect();
    let collect = |((_, control, health), ticket): (&(u64, Control, Health), Ticket)| loop {
        match control.try_collect(ticket, health) {
            Ok(Some(_)) => return Ok(()),
            Err(error) => return Err(error),
            Ok(None) if started.elapsed() > LIMIT => return Err(Error::other("it takes too long")),
            Ok(None) => thread::sleep(Duration::from_millis(5)),
        }
    };
    nodes.iter().zip(tickets).map(collect).collect()
}

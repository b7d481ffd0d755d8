//! Many ranks in one process over loopback, to measure the control plane at cluster scale.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use super::hub::{Command, Hub, NodeKey};
use super::ident::{self, CommId};
use super::unique::BootstrapHandle;
use super::{Joiner, next_node};
use crate::communicator::Health;
use crate::control::{Control, Ticket, Topic};
use crate::error::{Error, Site};
use crate::{Rank, Result};

/// The limit for one step.
const LIMIT: Duration = Duration::from_secs(300);

/// The measured times.
#[derive(Clone, Debug)]
pub struct Simulated {
    /// Until all ranks are connected.
    pub connect: Duration,
    /// Several barriers.
    pub barriers: Vec<Duration>,
    /// From the death of rank 0 until every other rank knows of it.
    pub death: Duration,
}

pub(super) struct Seated {
    key: NodeKey,
    pub(super) control: Control,
    health: Health,
}

impl Seated {
    /// Opens a rendezvous.
    pub(super) fn place(hub: &Arc<Hub>) -> Result<BootstrapHandle> {
        let mut place = BootstrapHandle::new(vec![loopback(hub)])?;
        place.secret = place.secret.public();
        place.open(hub, None);
        Ok(place)
    }

    /// Starts `size` ranks at a new rendezvous.
    pub(super) fn all(hub: &Arc<Hub>, size: usize) -> Result<(BootstrapHandle, Vec<Self>)> {
        let place = Self::place(hub)?;
        let come = |rank| {
            // A distinct number makes each rank a process of its own to its peers.
            let process = u64::from_le_bytes(ident::random()?);
            let joiner = Joiner::of(hub.clone(), rank, size, process)?;
            let (key, rank) = (next_node(), Rank::at(rank));
            let meet = place.meet("loopback".to_owned());
            let meeting = joiner.join(key, meet, place.secret.clone())?;
            let (control, health) = (Control::new(meeting, rank.0), Health::new("World", rank));
            Ok(Self { key, control, health })
        };
        let all = (0..size).map(come).collect::<Result<_>>()?;
        Ok((place, all))
    }

    pub(super) fn comm_id(&self) -> Option<CommId> {
        self.control.meeting.uplink()?.comm_id()
    }
}

/// Connects ranks, runs barriers, and kills rank 0.
///
/// # Errors
/// The ranks do not meet, or do not notice the death.
pub fn simulate(ranks: usize) -> Result<Simulated> {
    let hub = Hub::start(Duration::from_secs(60))?;
    let all = |outcomes: Vec<Result<()>>| outcomes.into_iter().collect::<Result<Vec<()>>>();
    let started = Instant::now();
    let (_, mut ranks) = Seated::all(&hub, ranks)?;
    // Every contribution is different.
    all(exchange(&ranks, "init", LIMIT, |rank| rank.to_le_bytes().to_vec()))?;
    let connect = started.elapsed();
    let mut barriers = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        all(exchange(&ranks, "barrier", LIMIT, |_| Vec::new()))?;
        barriers.push(started.elapsed());
    }
    let root = ranks.remove(0);
    let started = Instant::now();
    hub.send(Command::Kill(root.key));
    for outcome in exchange(&ranks, "barrier", LIMIT, |_| Vec::new()) {
        match outcome {
            Err(Error::PeerFailed(failed)) if failed.lost == [Rank(0)] => {}
            Err(error) => return Err(error),
            Ok(()) => return Err(Error::other("a rank did not notice that rank 0 is dead")),
        }
    }
    Ok(Simulated { connect, barriers, death: started.elapsed() })
}

fn loopback(hub: &Hub) -> SocketAddr {
    let known = hub.addresses.iter().find(|address| address.ip().is_loopback());
    let port = hub.addresses.first().map_or(0, |address| address.port());
    known.copied().unwrap_or_else(|| ([127, 0, 0, 1], port).into())
}

/// Runs an exchange of all ranks on this thread; the result of each.
pub(super) fn exchange(
    ranks: &[Seated],
    topic: Topic,
    limit: Duration,
    part: impl Fn(usize) -> Vec<u8>,
) -> Vec<Result<()>> {
    let (started, site) = (Instant::now(), Site::caller());
    let post = |(rank, seated): (usize, &Seated)| seated.control.post(topic, site, part(rank));
    let tickets: Vec<Ticket> = ranks.iter().enumerate().map(post).collect();
    let collect = |(Seated { control, health, .. }, ticket): (&Seated, Ticket)| loop {
        match control.try_collect(ticket, health) {
            Ok(Some(_)) => return Ok(()),
            Err(error) => return Err(error),
            Ok(None) if started.elapsed() > limit => return Err(Error::other("it takes too long")),
            Ok(None) => thread::sleep(Duration::from_millis(5)),
        }
    };
    ranks.iter().zip(tickets).map(collect).collect()
}

//! How ranks come together and part.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Wire;
use crate::communicator::{CommConfig, Health, Limits};

/// What a backend needs to join a communicator.
pub struct Join {
    /// The same on all ranks, and unique: NCCL's unique id.
    pub id: u64,
    /// This rank.
    pub rank: u32,
    /// How many ranks.
    pub size: u32,
    /// This rank's device.
    pub ordinal: u32,
    /// The communicator's name.
    pub name: &'static str,
    /// What it is configured with.
    pub config: CommConfig,
    /// Where faults and pending errors of this rank's communicator go.
    pub health: Arc<Health>,
    /// How long joining may take.
    pub deadline: Duration,
    /// How long the communicator's waits may take.
    pub limits: Arc<Limits>,
    /// How many ids of NCCL's the ranks connect by; none to have the backend choose.
    pub ids: Option<u32>,
    /// To the ranks in other processes; none where all ranks share this one's memory.
    pub wire: Option<Arc<dyn Wire>>,
}

/// One rank's part in the division of a communicator.
pub struct Part {
    /// Its place in a child; none for a rank that stays out.
    pub place: Option<ChildPlace>,
    /// Whether the child is one that borrows its parent: such a one may share the parent's resources.
    pub borrows: bool,
    /// Who has no part in it and makes no call, where there is one child of all others.
    pub without: Vec<u32>,
}

/// A rank's place in a communicator that is made of some of another one's ranks.
pub struct ChildPlace {
    /// Which child: the same on all of its ranks, another one on those of other children.
    pub color: u32,
    /// The rank there.
    pub rank: u32,
    /// How many ranks it has.
    pub size: u32,
    /// Its name.
    pub name: &'static str,
    /// What it is configured with.
    pub config: CommConfig,
    /// How long it may take to connect.
    pub deadline: Duration,
}

/// Looks at a communicator while somebody waits for its work, and once more when the wait is over;
/// leaves what it finds with the health. Must not block; runs on whatever thread waits.
pub type Watch = Box<dyn Fn(&Health) + Send + Sync>;

/// Says that a rank leaves, and why.
pub type Departer = Box<dyn Fn(&str, Departure) + Send + Sync>;

/// How a rank leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Departure {
    /// It is done, as far as it knows. What it enqueued still runs.
    Finished,
    /// Before its time. What it enqueued still runs.
    AfterItsWork,
    /// What it enqueued is void.
    AtOnce,
    /// The communicator is over for all, and this rank goes on with some of them.
    Survives,
}

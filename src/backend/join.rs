//! How ranks join and leave a communicator.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Wire;
use crate::communicator::{CommConfig, Health, Limits};

/// A backend's parameters to join a communicator.
pub struct Join {
    /// Identifies the communicator: unique, and the same on all ranks. NCCL's unique id.
    pub id: u64,
    /// This rank.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
    /// This rank's device.
    pub ordinal: u32,
    /// The communicator's name.
    pub name: &'static str,
    /// The configuration.
    pub config: CommConfig,
    /// Receives faults and pending errors of this rank's communicator.
    pub health: Arc<Health>,
    /// The limit for joining.
    pub deadline: Duration,
    /// The limit of the communicator's waits.
    pub limits: Arc<Limits>,
    /// The number of NCCL ids that the ranks connect by; `None` lets the backend choose.
    pub ids: Option<u32>,
    /// Connects to ranks in other processes; `None` if all ranks share memory.
    pub wire: Option<Arc<dyn Wire>>,
}

/// One rank's part in dividing a communicator.
pub struct Part {
    /// Its place in a child; `None` for a rank that stays out.
    pub place: Option<ChildPlace>,
    /// Whether the child borrows its parent, and so may share the parent's resources.
    pub borrows: bool,
    /// The ranks that are left out and make no call, if all others form one child.
    pub without: Vec<u32>,
}

/// A rank's place in a child communicator.
pub struct ChildPlace {
    /// Identifies the child: the same on its ranks, and different for other children.
    pub color: u32,
    /// The rank there.
    pub rank: u32,
    /// The number of ranks.
    pub size: u32,
    /// Its name.
    pub name: &'static str,
    /// The configuration.
    pub config: CommConfig,
    /// The limit for connecting.
    pub deadline: Duration,
}

/// Checks a communicator while a thread waits for its work, and once more after the wait, and
/// reports what it finds to the health. Runs on the waiting thread and must not block.
pub type Watch = Box<dyn Fn(&Health) + Send + Sync>;

/// Announces that a rank leaves, and why.
pub type Departer = Box<dyn Fn(&str, Departure) + Send + Sync>;

/// How a rank leaves.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Departure {
    /// It has finished, as far as it knows. Its enqueued work still runs.
    Finished,
    /// Before its time. Its enqueued work still runs.
    AfterItsWork,
    /// Its enqueued work is void.
    AtOnce,
    /// The communicator is over for all ranks, and this one continues with some of them.
    Survives,
}

/// A communicator's rank, size and GPU, or why it cannot be used.
pub type Says = Result<(i32, i32, i32), String>;

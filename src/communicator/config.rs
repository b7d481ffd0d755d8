//! Options of a communicator.

use std::time::Duration;

use typed_builder::TypedBuilder;

use super::{Change, Stragglers, Transfers, Watch};
use crate::backend::Slot;
use crate::wait::DEFAULT_DEADLINE;

/// Options of a communicator; each has a default.
///
/// ```
/// use std::time::Duration;
/// use typed_nccl::CommConfig;
///
/// let config = CommConfig::builder().deadline(Duration::from_secs(30)).build();
/// # assert_eq!(config.deadline, Duration::from_secs(30));
/// ```
#[derive(Clone, Debug, TypedBuilder)]
#[non_exhaustive]
pub struct CommConfig {
    /// How long a host wait that depends on the other ranks may take, `connect` included. When it
    /// passes, the communicator is poisoned with [`Error::Timeout`](crate::Error::Timeout).
    /// 10 minutes unless set.
    #[builder(default = DEFAULT_DEADLINE)]
    pub deadline: Duration,
    /// How many contexts one-sided operations have: order is kept within one. All ranks choose the
    /// same. 1 unless set. NCCL: `numRmaCtx`, 2.31 for more than 1.
    #[builder(default = 1)]
    pub contexts: u32,
    /// How many signals each context has. All ranks choose the same. 1 unless set; contexts x signals
    /// x ranks x ranks are 2^26 at most. NCCL: `numRmaSig`, 2.31 for more than 1.
    #[builder(default = 1)]
    pub signals: u32,
    /// Whether children that borrow this communicator (`split_shared`) use its resources: network
    /// connections, proxy threads, device memory. All ranks choose the same. `false` unless set. NCCL:
    /// `splitShare`, 2.18, which counts on the parent.
    #[builder(default = false)]
    pub split_share: bool,
    /// Which memory sends and receives may name. All ranks choose the same. [`Transfers::Any`] unless
    /// set; a child has a choice of its own, given to `split_with`.
    #[builder(default)]
    pub transfers: Transfers,
    /// What is done about ranks that are late, by this rank; each may choose its own.
    /// [`Stragglers::Wait`] unless set. It is looked at while this rank waits on the host, and when it asks
    /// for the communicator's health.
    #[builder(default)]
    pub stragglers: Stragglers,
    /// Who is told when the communicator's state changes: each [`Change`] once, in their order, from when
    /// it is ready until it has ended, also of those that go on from it (`recover`, `shrink`). It is
    /// called on whatever thread finds the change, so it must not block; one thread at a time. A panic in
    /// it is caught and logged. A child has a watch of its own, given to `split_with`. Nobody unless set.
    ///
    /// ```
    /// # use typed_nccl::{Change, CommConfig};
    /// let config = CommConfig::builder().watch(|change: &Change| eprintln!("{change}")).build();
    /// ```
    #[builder(default, setter(
        fn transform(watch: impl Fn(&Change) + Send + Sync + 'static) -> Option<Watch> {
            Some(Watch::new(watch))
        }
    ))]
    pub watch: Option<Watch>,
}

impl CommConfig {
    pub(crate) fn slots(&self) -> Slot {
        Slot { context: self.contexts.max(1), index: self.signals.max(1) }
    }
}

impl Default for CommConfig {
    fn default() -> Self {
        Self::builder().build()
    }
}

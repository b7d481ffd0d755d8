//! Options of a communicator.

use std::time::Duration;

use typed_builder::TypedBuilder;

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
}

impl Default for CommConfig {
    fn default() -> Self {
        Self::builder().build()
    }
}

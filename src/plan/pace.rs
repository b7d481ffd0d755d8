//! How long a rank may take on the host over what the others wait for.

use std::time::Instant;

use crate::Result;
use crate::backend::Backend;
use crate::communicator::{Core, Limit};
use crate::error::{Error, Site, Timeout};

/// The deadline of what a rank computes of a plan while it binds it: the others wait no longer for
/// it.
pub(super) struct Pace {
    started: Instant,
    limit: Limit,
    site: Site,
}

impl Pace {
    pub(super) fn start<B: Backend>(core: &Core<B>, site: Site) -> Self {
        Self { started: Instant::now(), limit: core.limit(), site }
    }

    /// Where the plan is bound.
    pub(super) fn site(&self) -> Site {
        self.site
    }

    /// Until when there is time, if that is ever.
    pub(super) fn until(&self) -> Option<Instant> {
        self.started.checked_add(self.limit.time)
    }

    /// Whether it has passed: what is in the making is of no use then.
    pub(super) fn is_over(&self) -> bool {
        self.started.elapsed() >= self.limit.time
    }

    /// Fails, and the communicator with it, if the deadline has passed.
    pub(super) fn keep<B: Backend>(&self, core: &Core<B>) -> Result<()> {
        if !self.is_over() {
            return Ok(());
        }
        let &Self { started, limit: Limit { of: deadline, .. }, site } = self;
        let waited = started.elapsed();
        let report =
            "this rank checks and lowers the plan, which takes time in proportion to what all \
                      ranks do"
                .to_owned();
        let timeout = Timeout { operation: "bind", site, waited, deadline, report };
        let error = Error::Timeout(Box::new(timeout));
        core.health.fail(error.clone());
        Err(error)
    }
}

//! Plans that `plan!` has checked during expansion.

use std::sync::{Arc, OnceLock};

use typed_nccl_plan::check::Accepted;
use typed_nccl_plan::ir;

use crate::error::{BindFault, Site};

/// A plan in the program's source, from the expansion of [`plan!`](crate::plan!).
#[doc(hidden)]
pub struct Declaration {
    data: &'static [u8],
    sites: &'static [Site],
    plan: OnceLock<Result<(Arc<ir::Plan>, Accepted), BindFault>>,
}

impl Declaration {
    /// A plan with its checked sizes, as bytes, and the sites of its statements.
    pub const fn new(data: &'static [u8], sites: &'static [Site]) -> Self {
        Self { data, sites, plan: OnceLock::new() }
    }

    pub(super) fn sites(&self) -> &'static [Site] {
        self.sites
    }

    /// The plan, and the sizes at which it was checked at compile time; decoded at the first call.
    pub(super) fn read(&self) -> Result<&(Arc<ir::Plan>, Accepted), BindFault> {
        let read = || {
            let (plan, accepted): (ir::Plan, Accepted) = postcard::from_bytes(self.data)?;
            Ok((Arc::new(plan), accepted))
        };
        let bad = |error: postcard::Error| BindFault::Unreadable { why: error.to_string() };
        let read = || read().map_err(bad);
        self.plan.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// The plan as data; `None` if it was refused during expansion.
    pub fn plan(&self) -> Option<&ir::Plan> {
        self.read().ok().map(|(plan, _)| &**plan)
    }
}

/// The caller's location.
#[doc(hidden)]
#[track_caller]
pub const fn here() -> Site {
    Site::caller()
}

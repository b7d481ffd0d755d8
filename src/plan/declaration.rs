//! Plans that `plan!` has checked while it expanded.

use std::sync::{Arc, OnceLock};

use typed_nccl_plan::check::Accepted;
use typed_nccl_plan::ir;

use crate::error::{BindFault, Site};

/// A plan in the program's text: what [`plan!`](crate::plan!) leaves of it.
#[doc(hidden)]
pub struct Declaration {
    data: &'static [u8],
    sites: &'static [Site],
    plan: OnceLock<Result<(Arc<ir::Plan>, Accepted), BindFault>>,
}

impl Declaration {
    /// A plan with the sizes that it was checked at, as bytes, and where its statements stand.
    pub const fn new(data: &'static [u8], sites: &'static [Site]) -> Self {
        Self { data, sites, plan: OnceLock::new() }
    }

    pub(super) fn sites(&self) -> &'static [Site] {
        self.sites
    }

    /// The plan, and what it was checked at while it compiled; read at the first call.
    pub(super) fn read(&self) -> Result<&(Arc<ir::Plan>, Accepted), BindFault> {
        let read = || {
            let (plan, accepted): (ir::Plan, Accepted) = postcard::from_bytes(self.data)?;
            Ok((Arc::new(plan), accepted))
        };
        let bad = |error: postcard::Error| BindFault::Unreadable { why: error.to_string() };
        let read = || read().map_err(bad);
        self.plan.get_or_init(read).as_ref().map_err(Clone::clone)
    }

    /// The plan as data; none if it was refused while it expanded.
    pub fn plan(&self) -> Option<&ir::Plan> {
        self.read().ok().map(|(plan, _)| &**plan)
    }
}

/// The place of the call.
#[doc(hidden)]
#[track_caller]
pub const fn here() -> Site {
    Site::caller()
}

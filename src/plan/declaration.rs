//! Plans that `plan!` has checked while it expanded.

use std::panic::Location;
use std::sync::{Arc, OnceLock};

use typed_nccl_plan::ir;

use crate::error::Site;

/// A plan in the program's text: what [`plan!`](crate::plan!) leaves of it.
#[doc(hidden)]
pub struct Declaration {
    json: &'static str,
    sites: &'static [Site],
    plan: OnceLock<Result<Arc<ir::Plan>, String>>,
}

impl Declaration {
    /// A plan as JSON, and where its statements stand.
    pub const fn new(json: &'static str, sites: &'static [Site]) -> Self {
        Self { json, sites, plan: OnceLock::new() }
    }

    pub(super) fn sites(&self) -> &'static [Site] {
        self.sites
    }

    /// The plan, read at the first call.
    pub(super) fn read(&self) -> Result<&Arc<ir::Plan>, String> {
        let read = || ir::Plan::from_json(self.json.as_bytes()).map(Arc::new);
        let plan = self.plan.get_or_init(|| read().map_err(|error| error.to_string()));
        plan.as_ref().map_err(Clone::clone)
    }

    /// The plan as data; none if it was refused while it expanded.
    pub fn plan(&self) -> Option<&ir::Plan> {
        self.read().ok().map(|plan| &**plan)
    }
}

/// The place of the call.
#[doc(hidden)]
#[track_caller]
pub const fn here() -> Site {
    Location::caller()
}

//! The engine is shared by the process. A test that could block it, or that another test's calls
//! could keep going, runs in its own process.

use std::panic::Location;
use std::time::Duration;

use crate::again;

/// Set in that process.
const INSIDE: &str = "TYPED_NCCL_TEST_INSIDE";

/// Runs the test `name` of the caller's module again, in its own process, and fails if that fails;
/// returns true inside it.
#[track_caller]
pub(crate) fn inside(name: &str) -> bool {
    inside_for(again::LIMIT, name)
}

/// Like [`inside`], with another limit.
#[track_caller]
pub(crate) fn inside_for(limit: Duration, name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let name = format!("{}::{name}", module(Location::caller().file()));
    again::run(&name, limit, |this| this.args(["--exact", &name, "--nocapture"]).env(INSIDE, "1"));
    false
}

/// `order::waits` for `tests/order/waits.rs`.
fn module(file: &str) -> String {
    let path = file.strip_prefix("tests/").unwrap_or(file);
    let path = path.strip_suffix(".rs").unwrap_or(path);
    path.strip_suffix("/mod").unwrap_or(path).replace('/', "::")
}

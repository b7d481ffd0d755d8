//! The engine is one for the process. A test that could stop it, or that another test's calls could
//! keep going, runs in a process of its own.

#[path = "again.rs"]
mod again;

/// Set in the process of its own.
const INSIDE: &str = "TYPED_NCCL_TEST_INSIDE";

/// Runs the test `name` again, in a process of its own, and fails if that one does; true inside it.
pub(crate) fn inside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    again::run(name, |this| this.args(["--exact", name, "--nocapture"]).env(INSIDE, "1"));
    false
}

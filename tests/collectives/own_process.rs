//! The engine is one for the process. A test that could stop it, or that another test's calls could
//! keep going, runs in a process of its own.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Set in the process of its own.
const INSIDE: &str = "TYPED_NCCL_TEST_INSIDE";

/// A process that takes longer hangs, and is killed.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the test `name` again, in a process of its own, and fails if that one does; true inside it.
pub(crate) fn inside(name: &str) -> bool {
    if std::env::var_os(INSIDE).is_some() {
        return true;
    }
    let this = std::env::current_exe().expect("a test is a program");
    let mut child = Command::new(this)
        .args(["--exact", name, "--nocapture"])
        .env(INSIDE, "1")
        .stdout(Stdio::null())
        .spawn()
        .expect("a program starts again");
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break status;
        }
        if started.elapsed() > LIMIT {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
            panic!("{name} hangs");
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{name}: {status}");
    false
}

//! Runs this program once more, in its own process, under a watchdog.

use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// A process that takes longer hangs and is killed. It runs beside others on a slow machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(600);

/// Runs this program again, and fails if that process fails.
pub(crate) fn run(name: &str, limit: Duration, set: impl FnOnce(&mut Command) -> &mut Command) {
    let mut this = Command::new(std::env::current_exe().expect("a test is a program"));
    this.stdout(Stdio::null());
    let mut child = set(&mut this).spawn().expect("a program starts again");
    let started = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break status;
        }
        if started.elapsed() > limit {
            child.kill().expect("a child can be killed");
            child.wait().expect("a child can be waited for");
            panic!("{name} hangs");
        }
        thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{name}: {status}");
}

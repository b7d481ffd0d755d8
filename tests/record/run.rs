//! Runs the tests by name, and their programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

/// The first argument of a program.
pub(crate) const PROGRAM: &str = "program";

/// The longest that a program may take.
const LIMIT: Duration = Duration::from_secs(60);

pub(crate) type Test = (&'static str, fn());

/// Runs the tests whose names contain one of the arguments, or all.
pub(crate) fn tests(all: &[&[Test]], arguments: &[String]) {
    let words: Vec<_> = arguments.iter().filter(|word| !word.starts_with('-')).collect();
    for (name, test) in all.iter().flat_map(|tests| tests.iter()) {
        if words.is_empty() || words.iter().any(|word| name.contains(word.as_str())) {
            test();
            println!("test {name} ... ok");
        }
    }
}

/// An empty folder, removed when this is dropped.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let name = format!("record-{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        fs::create_dir_all(&path).expect("the folder can be made");
        Self(path)
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A program of this file, with these ranks and variables.
pub(crate) fn program(name: &str, ranks: &str, set: &[(&str, &str)]) -> Command {
    let mut this = Command::new(std::env::current_exe().expect("a test is a program"));
    this.args([PROGRAM, name]).env("TYPED_NCCL", ranks);
    for variable in ["TYPED_NCCL_TRACE", "TYPED_NCCL_FLIGHT_RECORD"] {
        this.env_remove(variable);
    }
    this.envs(set.iter().copied());
    this.stdout(Stdio::piped()).stderr(Stdio::piped());
    this
}

/// Waits for a program, and fails if it hangs.
pub(crate) fn end(mut child: Child) -> Output {
    let started = Instant::now();
    while child.try_wait().expect("a child").is_none() {
        if started.elapsed() > LIMIT {
            let _ = child.kill();
            let said = child.wait_with_output().expect("a child");
            panic!("it hangs: {}", String::from_utf8_lossy(&said.stderr));
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.wait_with_output().expect("a child")
}

/// Runs a program, which must succeed or fail.
pub(crate) fn run(mut command: Command, succeeds: bool) -> String {
    let ended = end(command.spawn().expect("it starts"));
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.status.success(), succeeds, "{}: {said}", ended.status);
    said
}

//! A process that runs tests one after another, and reports its progress on standard output.

use std::env;
use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::runner::{Machine, Test, UNDER};

/// Why a test failed.
pub(crate) type Outcome = Result<(), String>;

/// Names the tests that a child runs, separated by commas.
const CHILD: &str = "TYPED_NCCL_GPU_TEST";

/// The beginning of a line for the parent: the test passed, or failed with the error that follows.
/// Other lines are the tests' own.
const PASSED: &str = "\u{1}passed";
const FAILED: &str = "\u{1}failed ";

/// How the reason of a test that had to be killed begins.
pub(crate) const HANGS: &str = "hangs";

pub(crate) struct TestProcess {
    child: Result<Child, String>,
    lines: Receiver<String>,
}

impl TestProcess {
    /// Starts one that runs `tests`.
    pub(crate) fn start(tests: &[&Test], machine: &Machine) -> Self {
        let (sender, lines) = mpsc::channel();
        let child = spawn(tests, machine).map(|mut child| {
            let output = child.stdout.take().expect("it is a pipe");
            thread::spawn(move || {
                for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).into_owned();
                    if !line.starts_with('\u{1}') {
                        println!("{line}");
                    } else if sender.send(line).is_err() {
                        return;
                    }
                }
            });
            child
        });
        Self { child, lines }
    }

    /// The outcome of the next test, and after the last one of the process. A process that takes
    /// too long is killed.
    pub(crate) fn run(&mut self, test: &Test, is_last: bool) -> Outcome {
        let child = self.child.as_mut().map_err(|error| error.clone())?;
        match self.lines.recv_timeout(test.limit()) {
            Ok(line) => match line.strip_prefix(FAILED) {
                Some(why) => {
                    end(child, test.limit());
                    Err(why.to_owned())
                }
                None if is_last => match end(child, test.limit()) {
                    Some(status) if status.success() => Ok(()),
                    Some(status) => Err(format!("it passed, but its process ended with {status}")),
                    None => Err("it passed, but its process did not end".to_owned()),
                },
                None => Ok(()),
            },
            Err(RecvTimeoutError::Disconnected) => match end(child, test.limit()) {
                Some(status) => Err(format!("its process ended: {status}")),
                None => Err("it closed its output and did not end".to_owned()),
            },
            Err(RecvTimeoutError::Timeout) => {
                end(child, Duration::ZERO);
                Err(format!("{HANGS}: it was killed after {:?}", test.limit()))
            }
        }
    }
}

fn spawn(tests: &[&Test], machine: &Machine) -> Result<Child, String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let under = env::var(UNDER).unwrap_or_default();
    let mut words = under.split_whitespace();
    let mut command = match words.next() {
        Some(program) => {
            let mut command = Command::new(program);
            command.args(words).arg(&this);
            command
        }
        None => Command::new(&this),
    };
    machine.set(&mut command);
    let names: Vec<_> = tests.iter().map(|test| test.name).collect();
    command.env(CHILD, names.join(",")).stdin(Stdio::null()).stdout(Stdio::piped());
    command.spawn().map_err(|error| format!("does not start: {error}"))
}

/// How a process ended; `None` if it did not end and was killed.
fn end(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if started.elapsed() >= limit {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

/// The tests that this process was started for.
pub(crate) fn asked() -> Option<String> {
    env::var(CHILD).ok()
}

/// Runs the tests of these names, up to the first that fails.
pub(crate) fn child(tests: &[Test], names: &str) -> ExitCode {
    for name in names.split(',') {
        let Some(test) = tests.iter().find(|test| test.name == name) else {
            eprintln!("no test is called {name}");
            return ExitCode::FAILURE;
        };
        let outcome = (test.run)();
        let line = match &outcome {
            Ok(()) => PASSED.to_owned(),
            Err(error) => format!("{FAILED}{}", error.to_string().replace('\n', "; ")),
        };
        let mut out = std::io::stdout().lock();
        let _ = writeln!(out, "{line}").and_then(|()| out.flush());
        if outcome.is_err() {
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

//! Runs tests, each in a process of its own that is killed when it takes too long.

use std::env;
use std::io::Write as _;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{Cuda, Result};

/// A test: a name, how many GPUs it takes at least, how long it may take, what it does.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) gpus: usize,
    pub(crate) seconds: u64,
    pub(crate) run: fn() -> Result<()>,
}

/// Names the test that a child runs.
const CHILD: &str = "TYPED_NCCL_GPU_TEST";

/// The most seconds that any test may take.
const SECONDS: &str = "TYPED_NCCL_GPU_SECONDS";

/// What each test is run under.
const UNDER: &str = "TYPED_NCCL_GPU_UNDER";

/// How many times longer things may take: whatever a test runs under slows it down.
pub(crate) fn slower() -> u64 {
    if env::var(UNDER).unwrap_or_default().is_empty() { 1 } else { 10 }
}

pub(crate) fn main(tests: &[Test]) -> ExitCode {
    if let Ok(name) = env::var(CHILD) {
        return child(tests, &name);
    }
    let filter: Vec<String> = env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let wanted = |test: &&Test| filter.is_empty() || filter.iter().any(|f| test.name.contains(f));
    let tests: Vec<&Test> = tests.iter().filter(wanted).collect();
    let gpus = match Cuda::count() {
        Ok(gpus) => gpus,
        Err(error) => {
            println!("SKIPPED all {} GPU tests: {error}", tests.len());
            return ExitCode::SUCCESS;
        }
    };
    match Cuda::nccl_version() {
        Ok(version) => println!("{gpus} GPUs, NCCL {version}"),
        Err(error) => {
            println!("SKIPPED all {} GPU tests: {gpus} GPUs, but {error}", tests.len());
            return ExitCode::SUCCESS;
        }
    }
    let (mut failed, mut skipped) = (Vec::new(), 0);
    for test in &tests {
        if test.gpus > gpus {
            println!("SKIPPED {}: it needs {} GPUs", test.name, test.gpus);
            skipped += 1;
            continue;
        }
        let started = Instant::now();
        let outcome = parent(test);
        let took = started.elapsed();
        match outcome {
            Ok(()) => println!("ok      {} ({took:.1?})", test.name),
            Err(why) => {
                println!("FAILED  {} ({took:.1?}): {why}", test.name);
                failed.push(test.name);
            }
        }
        // Whoever reads along sees it before the next one can hang.
        let _ = std::io::stdout().flush();
    }
    let passed = tests.len() - failed.len() - skipped;
    println!("{passed} passed, {} failed, {skipped} skipped", failed.len());
    match failed.is_empty() {
        true => ExitCode::SUCCESS,
        false => {
            println!("failed: {}", failed.join(", "));
            ExitCode::FAILURE
        }
    }
}

fn child(tests: &[Test], name: &str) -> ExitCode {
    let Some(test) = tests.iter().find(|test| test.name == name) else {
        eprintln!("no test is called {name}");
        return ExitCode::FAILURE;
    };
    match (test.run)() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parent(test: &Test) -> Result<(), String> {
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
    command.env(CHILD, test.name).stdin(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("does not start: {error}"))?;
    let most = env::var(SECONDS).ok().and_then(|seconds| seconds.parse().ok());
    let limit = Duration::from_secs(most.unwrap_or(u64::MAX).min(slower() * test.seconds));
    match wait(&mut child, limit) {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(status.to_string()),
        None => {
            let _ = child.kill();
            let _ = child.wait();
            Err(format!("hangs: it was killed after {limit:?}"))
        }
    }
}

fn wait(child: &mut Child, limit: Duration) -> Option<ExitStatus> {
    let started = Instant::now();
    while started.elapsed() < limit {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    None
}

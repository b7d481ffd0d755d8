//! Runs tests, each in a process of its own that is killed when it takes too long: on GPUs, or on the
//! doubles of CUDA and NCCL where there are none.

use std::env;
use std::io::Write as _;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{Cuda, NcclVersion, Result, library};

use crate::stage::Stage;

/// A test: a name, how many ranks it takes at least, how long it may take, what it does.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) gpus: usize,
    pub(crate) seconds: u64,
    /// Why it takes real GPUs, if it does.
    pub(crate) real: Option<&'static str>,
    pub(crate) run: fn() -> Result<()>,
}

/// Names the test that a child runs.
const CHILD: &str = "TYPED_NCCL_GPU_TEST";

/// The most seconds that any test may take.
const SECONDS: &str = "TYPED_NCCL_GPU_SECONDS";

/// What each test is run under.
const UNDER: &str = "TYPED_NCCL_GPU_UNDER";

/// How many GPUs the doubles are to have; then they are taken whatever the machine has.
const DOUBLES: &str = "TYPED_NCCL_GPU_DOUBLES";

/// How many ranks share each GPU.
const SHARED: &str = "TYPED_NCCL_GPU_SHARED";

/// Since when NCCL lets them.
const SHARES: NcclVersion = NcclVersion::new(2, 30, 3);

/// How many they have where nothing is said.
const PRETENDED: usize = 2;

/// What tests run on.
struct Machine {
    gpus: usize,
    /// How many ranks share each.
    shared: usize,
    /// None where the GPUs are real.
    doubles: Option<Stage>,
}

impl Machine {
    /// What there is; `Err` says why the tests are skipped.
    fn find() -> Result<Self, String> {
        let asked = said(DOUBLES);
        let gpus = match (asked, Cuda::count()) {
            (Some(asked), _) => return Self::doubles(asked),
            (None, Ok(gpus)) => gpus,
            (None, Err(error)) => {
                println!("no GPUs: {error}");
                return Self::doubles(PRETENDED);
            }
        };
        let version = library::version().map_err(|error| format!("{gpus} GPUs, but {error}"))?;
        // Much takes two ranks.
        let can = gpus == 1 && version >= SHARES;
        let shared = said(SHARED).unwrap_or(if can { 2 } else { 1 });
        println!("{gpus} GPUs, NCCL {version}, {shared} ranks on each");
        Ok(Self { gpus, shared, doubles: None })
    }

    fn doubles(gpus: usize) -> Result<Self, String> {
        if cfg!(not(target_os = "linux")) {
            return Err("the doubles are for Linux".to_owned());
        }
        let shared = said(SHARED).unwrap_or(1);
        println!("doubles of {gpus} GPUs and of NCCL, {shared} ranks on each");
        Ok(Self { gpus, shared, doubles: Some(Stage::new()) })
    }

    /// Runs tests, those on real GPUs one by one.
    fn run(&self, tests: &[&Test]) -> Vec<(&'static str, How)> {
        let at_once = if self.doubles.is_none() { 1 } else { 3 };
        let (left, outcomes) = (Mutex::new(tests.iter()), Mutex::new(Vec::new()));
        let next = || left.lock().expect("nobody panics").next();
        let work = || {
            while let Some(test) = next() {
                let how = self.run_one(test);
                outcomes.lock().expect("nobody panics").push((test.name, how));
            }
        };
        thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(work))));
        outcomes.into_inner().expect("nobody panics")
    }

    fn run_one(&self, test: &Test) -> How {
        if let Some(why) = self.lacks(test) {
            println!("SKIPPED {}: {why}", test.name);
            return How::Skipped;
        }
        let started = Instant::now();
        let outcome = parent(test, self);
        let took = started.elapsed();
        let (line, how) = match outcome {
            Ok(()) => (format!("ok      {} ({took:.1?})", test.name), How::Passed),
            Err(why) => (format!("FAILED  {} ({took:.1?}): {why}", test.name), How::Failed),
        };
        // Whoever reads along sees it before the next one can hang.
        println!("{line}");
        let _ = std::io::stdout().flush();
        how
    }

    /// Why a test is not for this machine.
    fn lacks(&self, test: &Test) -> Option<String> {
        match test.real {
            Some(why) if self.doubles.is_some() => Some(why.to_owned()),
            _ => {
                let too_few = test.gpus > self.gpus * self.shared;
                too_few.then(|| format!("it needs {} ranks", test.gpus))
            }
        }
    }

    /// What a test's process has.
    fn set(&self, command: &mut Command) {
        if let Some(stage) = &self.doubles {
            stage.set(command, self.gpus);
        }
        command.env(SHARED, self.shared.to_string());
        if self.shared > 1 {
            // A kernel that is loaded late, and one that shares a queue, would wait for another rank's.
            command.env("NCCL_MULTI_RANK_GPU_ENABLE", "1").env("CUDA_MODULE_LOADING", "EAGER");
            command.env("CUDA_DEVICE_MAX_CONNECTIONS", "32");
        }
    }
}

fn said(variable: &str) -> Option<usize> {
    env::var(variable).ok()?.parse().ok()
}

/// How many ranks share each GPU.
pub(crate) fn shared() -> usize {
    said(SHARED).unwrap_or(1)
}

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
    let machine = match Machine::find() {
        Ok(machine) => machine,
        Err(why) => {
            println!("SKIPPED all {} GPU tests: {why}", tests.len());
            return ExitCode::SUCCESS;
        }
    };
    let outcomes = machine.run(&tests);
    let failed: Vec<_> = outcomes.iter().filter(|(_, how)| *how == How::Failed).collect();
    let skipped = outcomes.iter().filter(|(_, how)| *how == How::Skipped).count();
    let passed = outcomes.len() - failed.len() - skipped;
    println!("{passed} passed, {} failed, {skipped} skipped", failed.len());
    if failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    let names: Vec<_> = failed.iter().map(|(name, _)| *name).collect();
    println!("failed: {}", names.join(", "));
    ExitCode::FAILURE
}

/// How a test ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Passed,
    Failed,
    Skipped,
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

fn parent(test: &Test, machine: &Machine) -> Result<(), String> {
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

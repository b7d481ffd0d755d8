//! Runs tests, those of a module one after the other in a process that is killed if one takes too
//! long: on GPUs, or on the doubles of CUDA and NCCL.

use std::collections::VecDeque;
use std::env;
use std::io::Write as _;
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{Cuda, NcclVersion, Result, library};

use crate::process::{self, HANGS, Outcome, TestProcess};
use crate::stage::Stage;

/// A test: its name, the least number of ranks, the time limit, and the body.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) gpus: usize,
    pub(crate) seconds: u64,
    /// Why it needs real GPUs, if it does.
    pub(crate) real: Option<&'static str>,
    pub(crate) run: fn() -> Result<()>,
}

impl Test {
    fn module(&self) -> &'static str {
        self.name.split("::").next().unwrap_or_default()
    }

    /// How long it may take on this machine.
    pub(crate) fn limit(&self) -> Duration {
        let most = said(SECONDS).map_or(u64::MAX, |seconds| seconds as u64);
        Duration::from_secs(most.min(slower() * self.seconds))
    }
}

/// The most seconds that any test may take.
const SECONDS: &str = "TYPED_NCCL_GPU_SECONDS";

/// The program under which the tests' processes run.
pub(crate) const UNDER: &str = "TYPED_NCCL_GPU_UNDER";

/// The number of GPUs that the doubles simulate. If set, they are used whatever the machine has.
const DOUBLES: &str = "TYPED_NCCL_GPU_DOUBLES";

/// How many ranks share each GPU.
const SHARED: &str = "TYPED_NCCL_GPU_SHARED";

/// The first NCCL release that supports it.
const SHARES: NcclVersion = NcclVersion::new(2, 30, 3);

/// The default number of simulated GPUs.
const PRETENDED: usize = 2;

/// The machine for the tests.
pub(crate) struct Machine {
    gpus: usize,
    /// How many ranks share each.
    shared: usize,
    /// `None` if the GPUs are real.
    doubles: Option<Stage>,
}

impl Machine {
    /// The available machine; `Err` says why the tests are skipped.
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
        // Many tests need two ranks.
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

    /// Runs tests, a few modules at a time, as most tests wait.
    fn run(&self, tests: &[&Test]) -> Vec<(&'static str, How)> {
        let (tests, lacking): (Vec<_>, Vec<_>) =
            tests.iter().copied().partition(|test| self.lacks(test).is_none());
        for test in &lacking {
            println!("SKIPPED {}: {}", test.name, self.lacks(test).unwrap_or_default());
        }
        let at_once = if self.doubles.is_none() { 2 } else { 3 };
        let modules = tests.chunk_by(|a, b| a.module() == b.module());
        let modules = Mutex::new(modules.map(|tests| tests.iter().copied().collect()));
        let outcomes = Mutex::new(Vec::new());
        let next = || modules.lock().expect("nobody panics").next();
        let work = || {
            while let Some(tests) = next() {
                let module = self.run_module(tests);
                outcomes.lock().expect("nobody panics").extend(module);
            }
        };
        thread::scope(|scope| (0..at_once).for_each(|_| drop(scope.spawn(work))));
        let skipped = lacking.iter().map(|test| (test.name, How::Skipped));
        outcomes.into_inner().expect("nobody panics").into_iter().chain(skipped).collect()
    }

    /// Runs tests in one process, and in a new one after each failure.
    fn run_module(&self, mut left: VecDeque<&Test>) -> Vec<(&'static str, How)> {
        let mut outcomes = Vec::new();
        while !left.is_empty() {
            let mut process = TestProcess::start(left.make_contiguous(), self);
            let mut before = Vec::new();
            while let Some(test) = left.pop_front() {
                let started = Instant::now();
                let mut outcome = process.run(test, left.is_empty());
                tell(test, started.elapsed(), &outcome, &before);
                before.push(test.name);
                let failed = outcome.is_err();
                for _ in 0..self.tries_after(&outcome) {
                    let started = Instant::now();
                    outcome = TestProcess::start(&[test], self).run(test, true);
                    tell(test, started.elapsed(), &outcome, &[]);
                    if outcome.is_ok() {
                        hung_at_first(test);
                        break;
                    }
                }
                let how = if outcome.is_err() { How::Failed } else { How::Passed };
                outcomes.push((test.name, how));
                if failed {
                    break;
                }
            }
        }
        outcomes
    }

    /// How often a test is tried again. Ranks that share a GPU hang by chance: a kernel of one never
    /// begins while another's waits for it (docs/decisions/080-shared-gpus.md).
    fn tries_after(&self, outcome: &Outcome) -> usize {
        let hangs = outcome.as_ref().is_err_and(|why| why.starts_with(HANGS));
        if hangs && self.doubles.is_none() && self.shared > 1 { 2 } else { 0 }
    }

    /// Why a test cannot run on this machine.
    fn lacks(&self, test: &Test) -> Option<String> {
        match test.real {
            Some(why) if self.doubles.is_some() => Some(why.to_owned()),
            _ => {
                let too_few = test.gpus > self.gpus * self.shared;
                too_few.then(|| format!("it needs {} ranks", test.gpus))
            }
        }
    }

    /// The environment of a test's process.
    pub(crate) fn set(&self, command: &mut Command) {
        if let Some(stage) = &self.doubles {
            stage.set(command, self.gpus);
        }
        command.env(SHARED, self.shared.to_string());
        if self.shared > 1 {
            // A lazily loaded kernel would wait for another rank's.
            command.env("NCCL_MULTI_RANK_GPU_ENABLE", "1").env("CUDA_MODULE_LOADING", "EAGER");
            // NCCL's kernels of more ranks do not fit side by side, and wait for each other.
            if self.shared > 2 && env::var_os("NCCL_MAX_CTAS").is_none() {
                command.env("NCCL_MAX_CTAS", "8");
            }
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

/// The factor on time limits, for tests that run under another program.
pub(crate) fn slower() -> u64 {
    if env::var(UNDER).unwrap_or_default().is_empty() { 1 } else { 10 }
}

fn hung_at_first(test: &Test) {
    println!("        {} hung at first: its ranks share a GPU", test.name);
}

/// Reports a test's outcome at once, so that it is visible before the next one can hang.
fn tell(test: &Test, took: Duration, outcome: &Outcome, before: &[&str]) {
    match outcome {
        Ok(()) => println!("ok      {} ({took:.1?})", test.name),
        Err(why) => {
            let after = match before {
                [] => String::new(),
                before => format!(", in one process after {}", before.join(", ")),
            };
            println!("FAILED  {} ({took:.1?}): {why}{after}", test.name);
        }
    }
    let _ = std::io::stdout().flush();
}

pub(crate) fn main(tests: &[Test]) -> ExitCode {
    if let Some(names) = process::asked() {
        return process::child(tests, &names);
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
    let mut outcomes = machine.run(&tests);
    if machine.doubles.is_some() && machine.shared == 1 {
        // Ends are different for ranks that share a GPU.
        let ends = |test: &&&Test| test.module() == "errors";
        let ends: Vec<_> = tests.iter().filter(ends).copied().collect();
        println!("the doubles with one GPU, which two ranks share");
        let shared = Machine { gpus: 1, shared: 2, doubles: Some(Stage::new()) };
        outcomes.extend(shared.run(&ends));
        // Sums of two are easy.
        let sums: Vec<_> = tests.iter().filter(|test| test.module() == "exact").copied().collect();
        println!("the doubles with one GPU, which three ranks share");
        outcomes.extend(Machine { gpus: 1, shared: 3, doubles: Some(Stage::new()) }.run(&sums));
    }
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

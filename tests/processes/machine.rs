//! Runs programs of this file with doubles of CUDA's driver and NCCL, which move data.

use std::env;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use nccl_sys::Version;
use typed_nccl::Result;

use crate::left;
use crate::ranks::Ranks;
use crate::stage::{self, Stage};

/// Longer means a hang, also on a slow machine with other tests beside it.
pub(crate) const LIMIT: Duration = Duration::from_secs(240);

/// Names the program that a process should run.
const PROGRAM: &str = "TYPED_NCCL_PROCESSES_TEST";

/// The argument before the name of the one test that this process runs.
const ONLY: &str = "--only";

/// How many tests run at a time. They wait more than they work.
const AT_ONCE: usize = 3;

/// Variables of launchers, which may have started this test.
const LAUNCHERS: [&str; 8] =
    ["TYPED_NCCL", "OMPI_", "PMI", "SLURM_", "RANK", "WORLD_SIZE", "FLUX_", "PALS_"];

/// A program, and the test that runs it.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    pub(crate) program: fn() -> Result<()>,
    pub(crate) test: fn(&Run),
}

/// Runs one program.
pub(crate) struct Run(&'static str);

impl Run {
    /// The program on a machine without GPUs and without a launcher.
    pub(crate) fn bare(&self) -> Command {
        self.by(&env::current_exe().expect("a test is a program").display().to_string(), &[])
    }

    /// Another program, which starts this one.
    pub(crate) fn by(&self, launcher: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(launcher);
        command.args(arguments).env(PROGRAM, self.0);
        for (name, _) in env::vars() {
            if LAUNCHERS.iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(name);
            }
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// The program as this many processes of one job, started as by torchrun, on a machine with
    /// four GPUs.
    pub(crate) fn ranks(&self, size: usize) -> Ranks {
        Ranks::start(size, |_| self.on_gpus())
    }

    /// The program on a machine with four GPUs.
    pub(crate) fn on_gpus(&self) -> Command {
        with_gpus(self.bare())
    }
}

/// Where the data of a test's programs moves, until the test is over.
static STAGE: Mutex<Option<Stage>> = Mutex::new(None);

/// Whether the ranks are on the host, by `RANKS_ARE=host`, though a test asks for GPUs.
pub(crate) fn are_on_host() -> bool {
    env::var("RANKS_ARE").is_ok_and(|are| are == "host")
}

/// The same with four GPUs.
pub(crate) fn with_gpus(mut command: Command) -> Command {
    if are_on_host() {
        command.env("TYPED_NCCL", "host");
        return command;
    }
    let mut stage = STAGE.lock().unwrap_or_else(PoisonError::into_inner);
    stage.get_or_insert_with(Stage::new).set(&mut command, 4);
    command
}

/// NCCL's double as a release.
pub(crate) fn release(version: Version) -> fake_nccl::File {
    fake_nccl::File::release(version, stage::libraries().join(format!("nccl-{version}")))
}

/// NCCL's double as an RCCL that follows a release.
pub(crate) fn rccl(version: Version) -> fake_nccl::File {
    fake_nccl::File::rccl(version, stage::libraries().join(format!("rccl-{version}")))
}

/// Moves data in an empty folder from here on, as other tests leave files behind.
pub(crate) fn on_a_new_stage() {
    drop(STAGE.lock().unwrap_or_else(PoisonError::into_inner).take());
}

/// Checks that only the dead left anything where data moved; see [`left::clear`].
pub(crate) fn clear(size: usize, dead: usize) {
    if let Some(stage) = &*STAGE.lock().unwrap_or_else(PoisonError::into_inner) {
        left::clear(&stage.folder, size, dead);
    }
}

/// Clears the stage and the doubles when a test is over, or has failed.
struct Clears;

impl Drop for Clears {
    fn drop(&mut self) {
        drop(STAGE.lock().unwrap_or_else(PoisonError::into_inner).take());
        // The next process removes any remains.
        let _ = fs::remove_dir_all(stage::libraries());
    }
}

/// An example as its own program, built like this one. `cargo test` builds the examples; if only
/// this test is run, they are built here.
pub(crate) fn example(name: &str) -> PathBuf {
    let this = env::current_exe().expect("a test is a program");
    let built = this.ancestors().nth(2).expect("a test lies in target/PROFILE/deps");
    if let Some(example) = built_along(name, built) {
        return example;
    }
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--offline", "--example", name, "--target-dir"]);
    command.arg(built.parent().expect("the profile is a folder of the target's"));
    command.arg("--manifest-path").arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../Cargo.toml"));
    for (has, feature) in [(cfg!(feature = "candle"), "candle"), (cfg!(feature = "mpi"), "mpi")] {
        if has {
            command.args(["--features", feature]);
        }
    }
    if built.ends_with("release") {
        command.arg("--release");
    }
    assert!(command.status().expect("cargo runs").success(), "{name} is not built");
    built.join("examples").join(name)
}

/// The newest example of this name, if it is no older than what it is built from. A second cargo
/// beside the one that runs this would rebuild the doubles, with other dependencies.
fn built_along(name: &str, built: &Path) -> Option<PathBuf> {
    let hashed = format!("{name}-");
    let is_program = |file: &str| file == name || file.starts_with(&hashed) && !file.contains('.');
    let files = built.join("examples").read_dir().ok()?.flatten();
    let wanted = files.filter(|file| file.file_name().to_str().is_some_and(is_program));
    let of = |path: PathBuf| Some((path.metadata().ok()?.modified().ok()?, path));
    let (made, example) = wanted.filter_map(|file| of(file.path())).max()?;
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    let program = format!("examples/{name}.rs");
    let sources = ["src", "crates", "macros/src", "plan/src", "sys/src", &program];
    let changed = sources.iter().filter_map(|source| last_change(&root.join(source))).max()?;
    (made >= changed).then_some(example)
}

/// When a file below this was last changed.
fn last_change(path: &Path) -> Option<SystemTime> {
    let about = path.metadata().ok()?;
    if !about.is_dir() {
        return about.modified().ok();
    }
    path.read_dir().ok()?.flatten().filter_map(|file| last_change(&file.path())).max()
}

pub(crate) fn output(mut command: Command) -> Output {
    wait(command.spawn().expect("the program starts"))
}

/// The output of a process that has ended.
pub(crate) fn wait(mut child: Child) -> Output {
    let started = Instant::now();
    while child.try_wait().expect("a child can be waited for").is_none() {
        if started.elapsed() > LIMIT {
            child.kill().expect("a child can be killed");
            let output = child.wait_with_output().expect("it was killed");
            panic!("it hangs: {output:?}");
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().expect("it has ended")
}

/// Lines, sorted.
pub(crate) fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

/// Checks that the text has all of these words.
#[track_caller]
pub(crate) fn says(output: &[u8], words: &[&str]) {
    let text = String::from_utf8_lossy(output);
    for word in words {
        assert!(text.contains(word), "`{word}` is missing in: {text}");
    }
}

pub(crate) fn main(tests: &[&[Test]]) {
    let tests = || tests.iter().copied().flatten();
    if let Ok(wanted) = env::var(PROGRAM) {
        let test = tests().find(|test| test.name == wanted).expect("there is such a program");
        if let Err(error) = (test.program)() {
            // At once: ranks write to one pipe, where pieces of their lines would mix.
            let line = format!("Error: {error}\n");
            let _ = io::stderr().write_all(line.as_bytes());
            std::process::exit(1);
        }
        return;
    }
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [first, only] = &arguments[..]
        && first == ONLY
    {
        let test = tests().find(|test| test.name == only).expect("there is such a test");
        let _clears = Clears;
        return (test.test)(&Run(test.name));
    }
    let wanted = arguments.first().filter(|wanted| !wanted.starts_with('-'));
    let is_wanted = |test: &&Test| wanted.is_none_or(|wanted| test.name.contains(wanted.as_str()));
    let at_once = if wanted.is_some() { 1 } else { AT_ONCE };
    let (rest, failed) = (Mutex::new(tests().filter(is_wanted)), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                let next = || rest.lock().unwrap_or_else(PoisonError::into_inner).next();
                while let Some(test) = next() {
                    if let Err(said) = succeeds(test.name, at_once == 1) {
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.push((test.name, said));
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    if failed.is_empty() {
        return;
    }
    // What failed among so many is shown once more at the end, where it is looked for.
    for (name, said) in &failed {
        eprintln!("== {name} failed; it said:\n{said}");
    }
    let names: Vec<_> = failed.iter().map(|(name, _)| *name).collect();
    eprintln!("failed: {}", names.join(", "));
    std::process::exit(1);
}

/// Runs a test as a process: each has its own stage, as killed ranks leave files on theirs. If it
/// runs alone, its output is shown as it comes. The error is what it said.
fn succeeds(test: &str, is_alone: bool) -> Result<(), String> {
    let mut command = Command::new(env::current_exe().expect("a test is a program"));
    command.args([ONLY, test]).stdin(Stdio::null());
    if is_alone {
        command.stdout(Stdio::inherit()).stderr(Stdio::inherit());
    }
    let started = Instant::now();
    let Output { status, stdout, stderr } = command.output().expect("it starts");
    let said = [stdout, stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    let verdict = if status.success() { "ok" } else { "FAILED" };
    println!("{said}test {test} ... {verdict} after {:.1} s", started.elapsed().as_secs_f64());
    if status.success() { Ok(()) } else { Err(said) }
}

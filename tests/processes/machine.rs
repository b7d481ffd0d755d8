//! Runs programs of this file where CUDA's driver and NCCL are doubles.

use std::env;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nccl_sys::{BOUND, ENVIRONMENT};
use typed_nccl::Result;

/// What takes longer hangs.
const LIMIT: Duration = Duration::from_secs(60);

/// Names the program that a process is to run.
const PROGRAM: &str = "TYPED_NCCL_PROCESSES_TEST";

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

    /// The program on a machine with four GPUs.
    pub(crate) fn on_gpus(&self) -> Command {
        with_gpus(self.bare())
    }
}

/// The same with four GPUs.
pub(crate) fn with_gpus(mut command: Command) -> Command {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("processes");
    fake_cuda::File::install(folder.join("cuda"));
    let nccl = fake_nccl::File::release(BOUND, folder.join("nccl"));
    command.env("LD_LIBRARY_PATH", folder.join("cuda")).env(ENVIRONMENT, nccl.path());
    command
}

pub(crate) fn output(mut command: Command) -> Output {
    wait(command.spawn().expect("the program starts"))
}

/// What it printed, when it has ended.
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

/// The text has all of these words.
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
            eprintln!("Error: {error}");
            std::process::exit(1);
        }
        return;
    }
    let wanted = env::args().nth(1).filter(|wanted| !wanted.starts_with('-'));
    for test in tests() {
        if wanted.as_deref().is_none_or(|wanted| test.name.contains(wanted)) {
            (test.test)(&Run(test.name));
            println!("test {} ... ok", test.name);
        }
    }
}

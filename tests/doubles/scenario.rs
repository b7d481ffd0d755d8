//! Runs a scenario: this program again, with the doubles in place of a machine's libraries.

use std::any::type_name;
use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{LazyLock, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use nccl_sys::{BOUND, ENVIRONMENT, Version};
use typed_nccl::Result;

/// The libraries installed on a scenario's machine.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    pub(crate) driver: Driver,
    pub(crate) nccl: Nccl,
    /// Its environment variables.
    pub(crate) variables: &'static [(&'static str, &'static str)],
}

#[derive(Clone, Debug)]
pub(crate) enum Driver {
    Double,
    /// The real machine's: mostly nothing.
    Own,
    /// A file of that name that is not a library.
    Broken,
}

#[derive(Clone, Debug)]
pub(crate) enum Nccl {
    /// The double of a release.
    Double(Version),
    /// A released library, where `cargo run -p xtask -- fetch-nccl` has put it.
    Released(Version),
    /// The double of an RCCL that follows a release.
    Rccl(Version),
    /// The environment names a missing file.
    Missing,
    /// The real machine's: mostly nothing.
    Own,
}

/// Four GPUs and the newest NCCL.
pub(crate) const NEWEST: Machine =
    Machine { driver: Driver::Double, nccl: Nccl::Double(BOUND), variables: &[] };

/// Four GPUs and an NCCL release, such as `2.27.7`.
pub(crate) fn release(text: &str) -> Machine {
    Machine { nccl: Nccl::Double(version(text)), ..NEWEST }
}

pub(crate) fn version(text: &str) -> Version {
    let mut numbers = text.split('.').map(|number| number.parse().expect("a number"));
    let mut next = || numbers.next().expect("three numbers");
    Version::new(next(), next(), next())
}

/// The double of the driver, in a scenario.
pub(crate) fn cuda() -> &'static fake_cuda::Fake {
    static LOADED: OnceLock<fake_cuda::Fake> = OnceLock::new();
    LOADED.get_or_init(|| {
        let path = env::var_os(CUDA).expect("the scenario's machine has the double");
        fake_cuda::File::at(path).load()
    })
}

/// The double of NCCL, in a scenario.
pub(crate) fn nccl() -> &'static fake_nccl::Fake {
    static LOADED: OnceLock<fake_nccl::Fake> = OnceLock::new();
    LOADED.get_or_init(|| {
        let path = env::var_os(ENVIRONMENT).expect("the scenario's machine has the double");
        fake_nccl::File::at(path).load()
    })
}

/// Tells a scenario where the double of the driver is.
const CUDA: &str = "TYPED_NCCL_DOUBLES_CUDA";

/// Tells a process which machine its scenario is on.
const CHILD: &str = "TYPED_NCCL_DOUBLES";

/// Printed at the end of a scenario.
const OVER: &str = "the scenario is over";

/// How long a scenario may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Runs the calling test's scenario in its own process on that machine; a test may run it on
/// several. Misuse reported by the doubles is a failure too.
#[track_caller]
pub(crate) fn on<F: FnOnce() -> Result<()>>(machine: Machine, run: F) {
    on_saying(machine, &[], run);
}

/// Like [`on`]; returns the process's output during and after the scenario.
#[track_caller]
pub(crate) fn on_saying<F: FnOnce() -> Result<()>>(machine: Machine, words: &[&str], run: F) {
    let label = format!("{machine:?}");
    if let Some(child) = env::var_os(CHILD) {
        if child != *label {
            // This process is for another machine.
            return;
        }
        if let Err(error) = run() {
            panic!("{error}");
        }
        if let Driver::Double = machine.driver {
            assert_eq!(cuda().misuse(), [""; 0], "the driver's contract is kept");
        }
        if let Nccl::Double(_) | Nccl::Rccl(_) = machine.nccl {
            assert_eq!(nccl().misuse(), [""; 0], "NCCL's contract is kept");
        }
        println!("{OVER}");
        if let (Driver::Double, []) = (machine.driver, words) {
            // The process's end is not checked.
            cuda().release_all();
        }
        return;
    }
    // A test is one function, and `run` a closure in it.
    let path = type_name::<F>().split("::").skip(1);
    let name = path.take_while(|part| !part.starts_with('{')).collect::<Vec<_>>().join("::");
    if let Err(why) = apart(&name, &machine, &label, words) {
        panic!("{why}");
    }
}

/// The folder of the doubles and of scenarios' output.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("doubles")
}

fn apart(name: &str, machine: &Machine, label: &str, words: &[&str]) -> Result<(), String> {
    let this = env::current_exe().map_err(|error| error.to_string())?;
    let output = folder().join("output").join(name);
    let file = fs::create_dir_all(folder().join("output")).and_then(|()| fs::File::create(&output));
    let file = file.map_err(|error| format!("{}: {error}", output.display()))?;
    let copy = file.try_clone().map_err(|error| error.to_string())?;
    let mut command = Command::new(this);
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, label);
    command.stdin(Stdio::null()).stdout(file).stderr(copy);
    for variable in ["LD_LIBRARY_PATH", ENVIRONMENT, "VIRTUAL_ENV", "CONDA_PREFIX", "PYTHONHOME"] {
        command.env_remove(variable);
    }
    match machine.driver {
        Driver::Double => {
            let (folder, file) = driver();
            command.env("LD_LIBRARY_PATH", folder).env(CUDA, file).env("TYPED_NCCL_NVRTC", file);
            // Each scenario compiles its own kernels.
            command.env("TYPED_NCCL_CACHE", "");
        }
        Driver::Own => {}
        Driver::Broken => {
            command.env("LD_LIBRARY_PATH", broken());
        }
    }
    match machine.nccl {
        Nccl::Double(version) => {
            command.env(ENVIRONMENT, library("nccl", version));
        }
        Nccl::Rccl(version) => {
            command.env(ENVIRONMENT, library("rccl", version));
        }
        Nccl::Released(version) => {
            command.env(ENVIRONMENT, released(version));
        }
        Nccl::Missing => {
            command.env(ENVIRONMENT, folder().join("nothing/here"));
        }
        Nccl::Own => {}
    }
    command.envs(machine.variables.iter().copied());
    let mut child = command.spawn().map_err(|error| format!("it does not start: {error}"))?;
    let started = Instant::now();
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break Some(status),
            _ if started.elapsed() > LIMIT => {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            _ => thread::sleep(Duration::from_millis(2)),
        }
    };
    let said = fs::read_to_string(&output).unwrap_or_default();
    match status {
        Some(status) if status.success() && said.contains(OVER) => {
            match words.iter().find(|word| !said.contains(**word)) {
                Some(word) => Err(format!("{name}: `{word}` is missing in:\n{said}")),
                None => Ok(()),
            }
        }
        Some(status) => Err(format!("{name}: {status}\n{said}")),
        None => Err(format!("{name} hangs: it was killed after {LIMIT:?}\n{said}")),
    }
}

/// The folder of the driver's double, and the double.
fn driver() -> &'static (PathBuf, PathBuf) {
    static DRIVER: LazyLock<(PathBuf, PathBuf)> = LazyLock::new(|| {
        let folder = folder().join("cuda");
        let file = fake_cuda::File::install(&folder);
        (folder, file.path().to_owned())
    });
    &DRIVER
}

/// The double of a release of NCCL or RCCL, made once by each process.
fn library(name: &'static str, version: Version) -> PathBuf {
    static MADE: Mutex<Vec<(&str, Version, PathBuf)>> = Mutex::new(Vec::new());
    let mut made = MADE.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((.., path)) = made.iter().find(|(is, of, _)| (*is, *of) == (name, version)) {
        return path.clone();
    }
    let folder = folder().join(format!("{name}-{version}"));
    let file = match name {
        "rccl" => fake_nccl::File::rccl(version, folder),
        _ => fake_nccl::File::release(version, folder),
    };
    let path = file.path().to_owned();
    made.push((name, version, path.clone()));
    path
}

/// A released library and no GPU; `None` if it was not fetched.
pub(crate) fn real(text: &str) -> Option<Machine> {
    let version = version(text);
    if released(version).is_file() {
        return Some(Machine { driver: Driver::Own, nccl: Nccl::Released(version), ..NEWEST });
    }
    // Not with `println!`, whose output the harness hides when a test passes.
    let words =
        format!("SKIPPED: no NCCL {version}: `cargo run -p xtask -- fetch-nccl` fetches it\n");
    let _ = io::stderr().write_all(words.as_bytes());
    None
}

pub(crate) fn released(version: Version) -> PathBuf {
    // Below the target folder, which also contains this test.
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../nccl");
    target.join(version.to_string()).join("nvidia/nccl/lib/libnccl.so.2")
}

/// A folder with a driver that is not a library.
fn broken() -> PathBuf {
    let folder = folder().join("broken");
    let written = fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("libcuda.so.1"), "no library\n"));
    written.expect("the target folder can be written to");
    folder
}

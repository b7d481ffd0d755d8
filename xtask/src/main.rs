//! Checks that need more than the compiler: `cargo run -p xtask -- <check>`.
//!
//! * `cost`: the cost of a typed call compared with a direct one, in instructions.
//! * `deaths [seed] [count]`: kills ranks at random moments, up to three at once, `count` times
//!   (1,000) as threads and as processes: the others continue with correct numbers, and nothing
//!   leaks.
//! * `fuzz seed seconds [kind]`: random programs on the host backend, compared with a model.
//! * `fuzz seed seconds processes`: those of several ranks, with each rank in a process of its own.
//! * `fuzz seed seconds frames`: bytes that no rank would send, sent to ranks that meet over the
//!   network.
//! * `kills count [seed]`: kills processes at random moments, and measures how soon the others are
//!   told and end.
//! * `nodes seed count`: this many ranks on a network in memory meet and exchange while the seed
//!   kills, stops and cuts off some: the others are told the truth, and none waits for ever.
//! * `parity`: compares every public name of nccl4py with its counterpart here; writes
//!   `docs/parity.md`.
//! * `pictures`: draws the library's plans, for `docs/guide/src/pictures` and for their documentation.
//! * `plans [seed] [count] [plans]`: random plans, the checker compared with a simulator: `count`
//!   instances, and `plans` plans at all their sizes.
//! * `ptx [check]`: generates the kernels' PTX from their source, or checks that it is up to date.
//! * `ptx show f32`: prints the PTX of an element type.
//! * `ranks count`: how long this many ranks take to meet, to wait for each other, and to lose rank
//!   0.
//! * `sanitize [address|thread [arguments]]`: the test suite under AddressSanitizer and
//!   ThreadSanitizer; `arguments` select tests as for `cargo test`.
//! * `abi-check [2.32.3 ..]`: compares the declarations of `nccl-sys` with the headers of released
//!   NCCLs; needs `--features abi`.
//! * `symbols [2.32.3 ..]`: compares its table of functions with the exports of released NCCLs.
//! * `variants seed count`: gives that many plans that are right one slip each, and compares what
//!   the checker says with the simulator.
//! * `verify FILE..`: checks schedules of MSCCL and MSCCL++, as `typed-nccl-verify` does.
//! * `fetch-nccl`: downloads the NCCLs that the tests of `nccl-sys` need.
//!
//! Exits with 0 if the check holds, 1 if it does not, 2 if it could not run.

#[cfg(feature = "abi")]
mod abi;
#[cfg(not(feature = "abi"))]
mod abi {
    //! Replaces the check in builds without bindgen.

    use nccl_sys::Version;

    use crate::{Check, Failure};

    pub(crate) fn run(_: &[Version]) -> Check {
        let how = "it reads C headers: cargo run -p xtask --features abi -- abi-check";
        Err(Failure::NotMade(how.to_owned()))
    }
}
mod cost;
mod deaths;
mod frames;
mod fuzz;
mod fuzz_processes;
mod kills;
mod nodes;
mod parity;
mod pictures;
mod plans;
mod ptx;
mod ranks;
#[cfg(test)]
mod releases;
mod sanitize;
mod symbols;
mod variants;
mod verify;
mod wheels;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

const USAGE: &str = "usage: cargo run -p xtask -- abi-check [version..] | cost | deaths [seed] [count] | fetch-nccl | \
     fuzz seed seconds [kind | processes | frames] | kills count [seed] | nodes seed count | parity | pictures | plans [seed] [count] [plans] | \
     ptx [check | show element] | ranks count | sanitize [address|thread [arguments]] | symbols [version..] | \
     variants seed count | verify FILE..";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments[..] {
        ["abi-check", ref names @ ..] => wheels::named(names).and_then(|which| abi::run(&which)),
        ["cost"] => cost::run(),
        ["deaths"] => deaths::run("1", "1000"),
        ["deaths", seed] => deaths::run(seed, "1000"),
        ["deaths", seed, count] => deaths::run(seed, count),
        ["fetch-nccl"] => wheels::fetch_tested(),
        ["fuzz", seed, "rank"] => fuzz_processes::rank(seed),
        ["fuzz", seed, seconds] => fuzz::run(seed, seconds, &fuzz::TURNS),
        ["fuzz", seed, seconds, "processes"] => fuzz_processes::run(seed, seconds),
        ["fuzz", seed, seconds, "frames"] => frames::run(seed, seconds),
        ["fuzz", seed, seconds, kind] => {
            fuzz::kind(kind).and_then(|kind| fuzz::run(seed, seconds, &[kind]))
        }
        ["kills", count] => kills::run(count, "1"),
        ["kills", count, seed] => kills::run(count, seed),
        ["parity"] => parity::run(),
        ["pictures"] => pictures::run(),
        ["plans", ref arguments @ ..] if arguments.len() <= 3 => plans::run(arguments),
        ["ptx"] => ptx::run(false),
        ["ptx", "check"] => ptx::run(true),
        ["ptx", "show", element] => ptx::show(element),
        ["nodes", seed, count] => nodes::run(seed, count),
        ["ranks", count] => ranks::run(count),
        ["sanitize"] => sanitize::run(&sanitize::ALL, &[]),
        ["sanitize", "address", ref what @ ..] => sanitize::run(&[sanitize::ADDRESS], what),
        ["sanitize", "thread", ref what @ ..] => sanitize::run(&[sanitize::THREAD], what),
        ["symbols", ref names @ ..] => wheels::named(names).and_then(|which| symbols::run(&which)),
        ["variants", seed, count] => variants::run(seed, count),
        ["verify", ref files @ ..] if !files.is_empty() => verify::run(files),
        _ => Err(Failure::NotMade(USAGE.to_owned())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("{failure}");
            match failure {
                Failure::Broken(_) => ExitCode::from(1),
                Failure::NotMade(_) => ExitCode::from(2),
            }
        }
    }
}

/// Why a check did not succeed.
#[derive(Debug)]
enum Failure {
    /// It ran, and does not hold.
    Broken(String),
    /// It could not run.
    NotMade(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Broken(what) => write!(f, "FAILED: {what}"),
            Self::NotMade(why) => write!(f, "NOT CHECKED: {why}"),
        }
    }
}

type Check<T = ()> = Result<T, Failure>;

/// The cargo that runs this.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    cargo
}

/// The workspace.
fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Where cargo builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Runs a tool and returns its output; `remedy` says how to install the tool.
fn output(command: &mut Command, remedy: &str) -> Check<Output> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |why: String| Err(Failure::NotMade(format!("{program} {why}")));
    match command.output() {
        Ok(output) if output.status.success() => Ok(output),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            failed(format!("gave {}:\n{said}", output.status))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            failed(format!("is not installed: {remedy}"))
        }
        Err(error) => failed(format!("does not start: {error}")),
    }
}

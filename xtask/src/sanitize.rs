//! Runs the test suite under AddressSanitizer and ThreadSanitizer, on the nightly toolchain.
//!
//! Each has its own target directory. ThreadSanitizer also needs an instrumented standard library:
//! otherwise the order that its locks and channels establish is invisible, and everything behind
//! them looks like a race. Reports go to files, so that a test that captures its output cannot
//! swallow them. Arguments after the sanitizer's name go to `cargo test`:
//! `sanitize thread --test host hazards::`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::{Check, Failure, output, root};

/// One of rustc's sanitizers.
#[derive(Clone, Copy)]
pub(crate) struct Sanitizer {
    /// Its name for rustc.
    name: &'static str,
    /// The variable that its run-time reads.
    options: &'static str,
    /// Whether the standard library has to be built with it.
    build_std: bool,
}

pub(crate) const ADDRESS: Sanitizer =
    Sanitizer { name: "address", options: "ASAN_OPTIONS", build_std: false };
pub(crate) const THREAD: Sanitizer =
    Sanitizer { name: "thread", options: "TSAN_OPTIONS", build_std: true };
pub(crate) const ALL: [Sanitizer; 2] = [ADDRESS, THREAD];

/// Cases of each property test, unless `PROPTEST_CASES` is set: they run about ten times slower.
const CASES: &str = "16";

/// The end of each report.
const SUMMARY: &str = "SUMMARY: ";

const RUSTUP: &str = "it finds the nightly toolchain; install Rust with rustup";

/// The default arguments of `cargo test`.
const EVERYTHING: [&str; 3] = ["--lib", "--tests", "--no-fail-fast"];

pub(crate) fn run(sanitizers: &[Sanitizer], what: &[&str]) -> Check {
    let toolchain = Toolchain::find(sanitizers)?;
    let what = if what.is_empty() { &EVERYTHING } else { what };
    let mut outcomes = Vec::new();
    for sanitizer in sanitizers {
        println!("{}: cargo test {}", sanitizer.name, what.join(" "));
        outcomes.push(sanitizer.test(&toolchain, what)?);
    }
    for outcome in &outcomes {
        for report in &outcome.reports {
            println!("{report}");
        }
    }
    println!("sanitizers:");
    for outcome in &outcomes {
        println!("  {outcome}");
    }
    if outcomes.iter().all(Outcome::is_clean) {
        return Ok(());
    }
    Err(Failure::Broken("see the summary above".to_owned()))
}

/// The nightly toolchain.
struct Toolchain {
    /// The target triple; naming it keeps the flags away from build scripts.
    host: String,
}

impl Toolchain {
    fn find(sanitizers: &[Sanitizer]) -> Check<Self> {
        let rustc = |arguments: &[&str]| {
            let mut rustc = Command::new("rustup");
            let text = output(rustc.args(["run", "nightly", "rustc"]).args(arguments), RUSTUP)?;
            Ok(String::from_utf8_lossy(&text.stdout).into_owned())
        };
        let version = rustc(&["-vV"])?;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.ok_or_else(|| Failure::NotMade("rustc names no host".to_owned()))?;
        let sysroot = rustc(&["--print", "sysroot"])?;
        let library = Path::new(sysroot.trim()).join("lib/rustlib/src/rust/library");
        if sanitizers.iter().any(|sanitizer| sanitizer.build_std) && !library.is_dir() {
            let remedy = "rustup component add rust-src --toolchain nightly";
            let why = format!("the standard library's source is not installed: {remedy}");
            return Err(Failure::NotMade(why));
        }
        Ok(Self { host: host.to_owned() })
    }
}

/// The result of one sanitizer.
struct Outcome {
    name: &'static str,
    passed: bool,
    /// The files with reports.
    reports: Vec<String>,
    seconds: u64,
}

impl Outcome {
    fn is_clean(&self) -> bool {
        self.passed && self.reports.is_empty()
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, passed, reports, seconds } = self;
        let tests = if *passed { "passed" } else { "FAILED" };
        let reports: usize = reports.iter().map(|text| text.matches(SUMMARY).count()).sum();
        write!(f, "{name:8} {reports} reports, tests {tests}, {seconds} s")
    }
}

impl Sanitizer {
    fn test(self, toolchain: &Toolchain, what: &[&str]) -> Check<Outcome> {
        let target = root().join("target").join(format!("sanitize-{}", self.name));
        let reports = target.join("reports");
        let failed = |error| Failure::NotMade(format!("{}: {error}", reports.display()));
        if reports.exists() {
            fs::remove_dir_all(&reports).map_err(failed)?;
        }
        fs::create_dir_all(&reports).map_err(failed)?;
        // A test requests more memory than exists: the allocator must refuse it instead of
        // reporting it.
        let log = reports.join("report");
        let mut options = format!("allocator_may_return_null=1:log_path='{}'", log.display());
        if self.name == THREAD.name {
            let known = root().join("xtask/races.txt");
            options += &format!(":print_suppressions=0:suppressions='{}'", known.display());
        }
        let lost = root().join("xtask/leaks.txt");
        let cargo = |command: &str, what: &[&str]| {
            let mut cargo = Command::new("rustup");
            cargo.args(["run", "nightly", "cargo", command, "--target", &toolchain.host]);
            cargo.args(["--package", "typed-nccl", "--package", "tests"]);
            if self.build_std {
                cargo.arg("-Zbuild-std");
            }
            cargo
                .args(what)
                .current_dir(root())
                .env("CARGO_TARGET_DIR", &target)
                // Libraries that tests load at run time find the sanitizer in the test.
                .env("RUSTFLAGS", format!("-Zsanitizer={} -Clink-arg=-rdynamic", self.name))
                .env("CARGO_PROFILE_DEV_OPT_LEVEL", "1")
                .env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only")
                .env(self.options, &options)
                .env(
                    "LSAN_OPTIONS",
                    format!("print_suppressions=0:suppressions='{}'", lost.display()),
                );
            if std::env::var_os("PROPTEST_CASES").is_none() {
                cargo.env("PROPTEST_CASES", CASES);
            }
            let status = cargo.status();
            status.map_err(|error| Failure::NotMade(format!("rustup: {error}")))
        };
        let started = Instant::now();
        // Tests run an example, and would build it without these flags.
        let built = cargo("build", &["--example", "quickstart"])?;
        let status = cargo("test", what)?;
        Ok(Outcome {
            name: self.name,
            passed: built.success() && status.success(),
            reports: found(&reports).map_err(failed)?,
            seconds: started.elapsed().as_secs(),
        })
    }
}

/// The reports in a folder. A file may contain only warnings, such as of refused memory.
fn found(folder: &Path) -> std::io::Result<Vec<String>> {
    let files = fs::read_dir(folder)?.map(|entry| Ok(entry?.path()));
    let files: Vec<PathBuf> = files.collect::<std::io::Result<_>>()?;
    let texts = files.iter().map(|file| Ok(String::from_utf8_lossy(&fs::read(file)?).into_owned()));
    let texts: Vec<String> = texts.collect::<std::io::Result<_>>()?;
    Ok(texts.into_iter().filter(|text| text.contains(SUMMARY)).collect())
}

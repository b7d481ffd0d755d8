//! Measures the cost of a typed call and of a plan's run: instructions, counted by callgrind, and
//! which of those that ran are locked, by the disassembly.
//!
//! `benches/call_cost.rs` has one function for a typed call and one for the equivalent direct call,
//! with a device that does nothing; `benches/run_cost.rs` has functions for runs of plans.
//! Callgrind collects only inside these functions, so the counts are those of the functions and
//! their callees, without the surrounding loop and without first uses.
//!
//! `benches/gpu_call.rs` and `gpu_kernel.rs` have the typed calls of GPUs, which run with the
//! doubles of CUDA and NCCL. The doubles' own work is not collected. The work of first calls is the
//! same in a run of few calls and in one of many, so it cancels out.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Check, Failure, cargo, output};

/// The most instructions that the types may add to a call.
const LIMIT: u64 = 45;

/// Runs of a plan with 64 all_reduces: the bench's name for it, its function, the most
/// instructions, and the most locked ones: two locks for a graph's launch, however many buffers.
const RUNS: [(&str, &str, u64, usize); 4] = [
    ("names", "run_of_names", 15_000, 0),
    ("array", "run_of_array", 8_300, 0),
    ("captured names", "run_of_names", 13_100, 4),
    ("captured array", "run_of_array", 6_300, 4),
];

/// The typed calls of GPUs: the bench, the operation, its function, the libraries' functions that
/// are not collected, the most instructions, and the most locked ones. Taking a device communicator
/// needs one, since another thread may end it.
const GPU: [(&str, &str, &str, &[&str], u64, usize); 3] = [
    ("gpu_call", "typed", "typed_in_place", &["ncclAllReduce"], 70, 0),
    ("gpu_kernel", "without", "typed_launch", &DRIVER, 650, 0),
    ("gpu_kernel", WITH_DEV, "typed_launch_with_dev", &DRIVER, 900, 1),
];

const DRIVER: [&str; 2] = ["cuCtxGetCurrent", "cuLaunchKernel"];

/// The kernel that takes a device communicator, which the doubles only have if they move data.
const WITH_DEV: &str = "with_dev";

/// Calls in one run; a count that differs between them is refused.
const CALLS: u64 = 1000;

/// The function that a call must reach.
const CALLEE: &str = "null_all_reduce";

const VALGRIND: &str = "it counts the instructions; install the package `valgrind`";
const OBJDUMP: &str = "it disassembles; install the package `binutils`";

pub(crate) fn run() -> Check {
    output(Command::new("valgrind").arg("--version"), VALGRIND)?;
    output(Command::new("objdump").arg("--version"), OBJDUMP)?;
    calls()?;
    runs()?;
    GPU.iter().try_for_each(gpu)
}

fn calls() -> Check {
    let bench = build("call_cost")?;
    let [typed, direct] = ["typed", "direct"].map(|side| {
        let profile = profile(&bench, side, &format!("{side}_all_reduce"))?;
        if !profile.functions().iter().any(|symbol| symbol.contains(CALLEE)) {
            return Err(Failure::Broken(format!("the {side} call never got to {CALLEE}")));
        }
        Ok(profile)
    });
    let (typed, direct) = (typed?, direct?);
    let added = typed.per_call()?.saturating_sub(direct.per_call()?);
    println!("typed  all_reduce {:4} instructions a call", typed.per_call()?);
    println!("direct all_reduce {:4}", direct.per_call()?);
    println!("difference        {added:4}, at most {LIMIT}");
    let locked = locked(&typed)?;
    println!("locked            {:4}, in {} functions", locked.len(), typed.functions().len());
    if !locked.is_empty() {
        let list = locked.join("\n  ");
        return Err(Failure::Broken(format!("locked instructions on the way:\n  {list}")));
    }
    if added > LIMIT {
        return Err(Failure::Broken(format!("the types add {added} instructions, over {LIMIT}")));
    }
    Ok(())
}

fn runs() -> Check {
    let bench = build("run_cost")?;
    let mut over = Vec::new();
    for (name, function, most, most_locked) in RUNS {
        let profile = profile(&bench, name, function)?;
        let (each, locked) = (profile.instructions / CALLS, locked(&profile)?);
        println!(
            "run of 64, {name:14} {each:6} instructions, at most {most}; locked {:2}, at most {most_locked}",
            locked.len()
        );
        if each > most || locked.len() > most_locked {
            over.push(format!("{name}:\n  {}", locked.join("\n  ")));
        }
    }
    match over.is_empty() {
        true => Ok(()),
        false => Err(Failure::Broken(format!(
            "runs that cost more, and what they lock:\n{}",
            over.join("\n")
        ))),
    }
}

fn gpu(
    &(bench, name, function, apart, most, most_locked): &(&str, &str, &str, &[&str], u64, usize),
) -> Check {
    let bench = build(bench)?;
    let machine = bench.with_file_name("machine");
    let copied = fs::create_dir_all(machine.join("moves")).and_then(|()| {
        let copy = |from, to| fs::copy(bench.with_file_name(from), machine.join(to));
        copy("libfake_cuda.so", "libcuda.so.1")?;
        copy("libfake_nccl.so", "libnccl.so.2")
    });
    copied.map_err(|error| Failure::NotMade(format!("the doubles: {error}")))?;
    let of = |calls| {
        let mut valgrind = collecting(function, apart);
        valgrind.env("LD_LIBRARY_PATH", &machine);
        valgrind.env("TYPED_NCCL_LIB", machine.join("libnccl.so.2"));
        if name == WITH_DEV {
            valgrind.env("FAKE_NCCL_MOVES", machine.join("moves"));
        }
        profiled(valgrind, &bench, name, calls)
    };
    let mut profile = of(2 * CALLS)?.minus(&of(CALLS)?);
    // Work that does not happen on each call is the double's, which varies occasionally.
    profile.ran.retain(|_, (_, times)| *times >= CALLS);
    let each = (profile.instructions + CALLS / 2) / CALLS;
    let locked = locked(&profile)?;
    println!(
        "{function:22} {each:4} instructions, at most {most}; locked {}, at most {most_locked}",
        locked.len()
    );
    if !(1..=most).contains(&each) || locked.len() > most_locked {
        let list = locked.join("\n  ");
        return Err(Failure::Broken(format!("{function} costs more, and locks:\n  {list}")));
    }
    Ok(())
}

/// Builds a bench; returns its executable.
fn build(name: &str) -> Check<PathBuf> {
    let mut build = cargo();
    build.args(["bench", "--package", "benches", "--bench", name, "--no-run"]);
    build.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let messages = output(&mut build, "it comes with Rust")?.stdout;
    let messages = String::from_utf8_lossy(&messages).into_owned();
    let executable = messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let path = message["executable"].as_str()?;
        (message["target"]["name"] == name).then(|| PathBuf::from(path))
    });
    executable.ok_or_else(|| Failure::NotMade(format!("cargo names no executable `{name}`")))
}

/// Callgrind's counts inside one of the bench's two functions.
#[derive(Debug, Default, PartialEq)]
struct Profile {
    /// All instructions of [`CALLS`] calls.
    instructions: u64,
    /// Each instruction that ran, by object file and address: its function's symbol, and how often.
    ran: BTreeMap<(String, u64), (String, u64)>,
}

/// Profiles an operation of a bench inside this function.
fn profile(bench: &Path, name: &str, function: &str) -> Check<Profile> {
    profiled(collecting(function, &[]), bench, name, CALLS)
}

/// Valgrind, collecting inside one function, and not inside others.
fn collecting(function: &str, apart: &[&str]) -> Command {
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--demangle=no", "--compress-strings=no", "--compress-pos=no"])
        .arg("--dump-instr=yes")
        .args([function].iter().chain(apart).map(|name| format!("--toggle-collect={name}")));
    valgrind
}

fn profiled(mut valgrind: Command, bench: &Path, name: &str, calls: u64) -> Check<Profile> {
    let out = bench.with_extension(format!("{}.callgrind", name.replace(' ', "_")));
    valgrind
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(bench)
        .args([name, &calls.to_string()]);
    output(&mut valgrind, VALGRIND)?;
    let text = fs::read_to_string(&out)
        .map_err(|error| Failure::NotMade(format!("{}: {error}", out.display())))?;
    Ok(Profile::parse(&text))
}

impl Profile {
    /// Parses callgrind's format: `ob=` and `fn=` set the owner of the following cost lines, of an
    /// address, a line and a count; the one after `calls=` is the callee's, and counted there.
    fn parse(text: &str) -> Self {
        let mut profile = Self::default();
        let (mut object, mut symbol) = (String::new(), String::new());
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if let Some(path) = line.strip_prefix("ob=") {
                path.clone_into(&mut object);
            } else if let Some(name) = line.strip_prefix("fn=") {
                name.clone_into(&mut symbol);
            } else if line.starts_with("calls=") {
                lines.next();
            } else if let Some((address, count)) = cost(line) {
                profile.instructions += count;
                let at = (object.clone(), address);
                profile.ran.entry(at).or_insert_with(|| (symbol.clone(), 0)).1 += count;
            }
        }
        profile
    }

    /// The excess over another.
    fn minus(mut self, other: &Self) -> Self {
        self.instructions = self.instructions.saturating_sub(other.instructions);
        self.ran.retain(|at, (_, times)| {
            *times = times.saturating_sub(other.ran.get(at).map_or(0, |(_, times)| *times));
            *times > 0
        });
        self
    }

    /// The functions that ran.
    fn functions(&self) -> BTreeSet<&str> {
        self.ran.values().map(|(symbol, _)| symbol.as_str()).collect()
    }

    fn per_call(&self) -> Check<u64> {
        match (self.instructions / CALLS, self.instructions % CALLS) {
            (each, 0) => Ok(each),
            _ => Err(Failure::Broken(format!(
                "{} instructions in {CALLS} calls: the calls differ",
                self.instructions
            ))),
        }
    }
}

/// An address and a count, of a cost line.
fn cost(line: &str) -> Option<(u64, u64)> {
    let mut words = line.strip_prefix("0x")?.split(' ');
    let address = u64::from_str_radix(words.next()?, 16).ok()?;
    Some((address, words.nth(1)?.parse().ok()?))
}

/// The locked instructions that ran.
fn locked(profile: &Profile) -> Check<Vec<String>> {
    let objects: BTreeSet<&str> = profile.ran.keys().map(|(object, _)| object.as_str()).collect();
    let mut found = Vec::new();
    for object in objects {
        let mut objdump = Command::new("objdump");
        objdump.args(["--disassemble", "--no-show-raw-insn", object]);
        let text = output(&mut objdump, OBJDUMP)?.stdout;
        let mut known = 0;
        for (address, instruction) in String::from_utf8_lossy(&text).lines().filter_map(code) {
            let Some((symbol, _)) = profile.ran.get(&(object.to_owned(), address)) else {
                continue;
            };
            known += 1;
            if is_locked(instruction) {
                found.push(format!("{instruction}  in {symbol}"));
            }
        }
        if known == 0 {
            return Err(Failure::Broken(format!("{object} has none of the code that ran")));
        }
    }
    Ok(found)
}

/// An instruction of objdump's text, with its address: `   24cd0:\tpush   %r15`.
fn code(line: &str) -> Option<(u64, &str)> {
    let (address, instruction) = line.split_once(":\t")?;
    Some((u64::from_str_radix(address.trim(), 16).ok()?, instruction))
}

/// Whether an instruction locks: by its prefix, or as `xchg` with memory does without one.
fn is_locked(instruction: &str) -> bool {
    let mut words = instruction.split_whitespace();
    match words.next() {
        Some("lock") => true,
        Some(name) if name.starts_with("xchg") => words.any(|operands| operands.contains('(')),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Profile, code, is_locked};

    #[test]
    fn locked_instructions_are_told() {
        for yes in [
            "lock cmpxchg %rcx,(%rdi)",
            "lock incq (%rax)",
            "xchg   %al,0x10(%rdi)",
            "xchg   %rax,0x60251(%rip)        # 868c8",
        ] {
            assert!(is_locked(yes), "{yes}");
        }
        for no in ["xchg   %ax,%ax", "mov    %rax,(%rsp)", "cmpxchg %rcx,(%rdi)", "ret"] {
            assert!(!is_locked(no), "{no}");
        }
    }

    #[test]
    fn instructions_have_addresses() {
        assert_eq!(code("  24cd0:\tpush   %r15"), Some((0x24cd0, "push   %r15")));
        assert_eq!(code("0000000000000010 <f>:"), None);
    }

    #[test]
    fn costs_go_to_the_instruction_that_ran() {
        let text = "positions: instr line\nevents: Ir\nsummary: 7\nob=/bench\nfl=a.rs\nfn=typed\n\
                    0x27 5 2\nfi=b.rs\n0x28 3 1\ncob=/libc\ncfn=copy\ncalls=1 9\n0x28 3 4\n\
                    ob=/libc\nfn=copy\n0x9 1 4\ntotals: 7\n";
        let profile = Profile::parse(text);
        assert_eq!(profile.instructions, 7);
        let of = |object: &str, address| profile.ran.get(&(object.to_owned(), address)).cloned();
        assert_eq!(of("/bench", 0x27), Some(("typed".to_owned(), 2)));
        assert_eq!(of("/bench", 0x28), Some(("typed".to_owned(), 1)));
        assert_eq!(of("/libc", 9), Some(("copy".to_owned(), 4)));
    }
}

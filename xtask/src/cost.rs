//! What a typed call and a run of a plan cost: instructions, counted by callgrind, and locked ones, looked
//! for in the disassembly.
//!
//! `benches/call_cost.rs` has one function for a typed call and one for the direct call that it
//! amounts to, against a device that does nothing; `benches/run_cost.rs` has functions for runs of plans.
//! Callgrind collects inside these functions only, so the figures are theirs and their callees', without the
//! loop around them and without the first use of anything. Exactly the functions that ran inside are then
//! searched in the disassembly.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::{Check, Failure, cargo, output};

/// The most instructions that the types may add to a call.
const LIMIT: u64 = 45;

/// Runs of a plan of 64 all_reduces: the bench's name of it, its function, the most instructions, and the most
/// locked ones in the functions that run. Those are of what is done once a run, or hardly ever: what is done for
/// each buffer has none.
const RUNS: [(&str, &str, u64, usize); 4] = [
    ("names", "run_of_names", 14_200, 5),
    ("array", "run_of_array", 7_400, 5),
    ("captured names", "run_of_names", 12_100, 5),
    ("captured array", "run_of_array", 5_300, 5),
];

/// Calls in one run; a figure that is not the same in each of them is refused.
const CALLS: u64 = 1000;

/// What a call has to get through to.
const CALLEE: &str = "null_all_reduce";

const VALGRIND: &str = "it counts the instructions; install the package `valgrind`";
const OBJDUMP: &str = "it disassembles; install the package `binutils`";

pub(crate) fn run() -> Check {
    output(Command::new("valgrind").arg("--version"), VALGRIND)?;
    output(Command::new("objdump").arg("--version"), OBJDUMP)?;
    calls()?;
    runs()
}

fn calls() -> Check {
    let bench = build("call_cost")?;
    let [typed, direct] = ["typed", "direct"].map(|side| {
        let profile = profile(&bench, side, &format!("{side}_all_reduce"))?;
        if !profile.functions.keys().any(|(_, symbol)| symbol.contains(CALLEE)) {
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
    println!("locked            {:4}, in {} functions", locked.len(), typed.functions.len());
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

/// Builds a bench; its executable.
fn build(name: &str) -> Check<PathBuf> {
    let mut build = cargo();
    build.args(["bench", "--package", "typed-nccl", "--bench", name, "--no-run"]);
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

/// What callgrind saw inside one of the bench's two functions.
#[derive(Debug, Default, PartialEq)]
struct Profile {
    /// All instructions of [`CALLS`] calls.
    instructions: u64,
    /// The instructions of each function that ran, by object file and symbol.
    functions: BTreeMap<(String, String), u64>,
}

/// What a bench does of this name, inside this function.
fn profile(bench: &Path, name: &str, function: &str) -> Check<Profile> {
    let out = bench.with_extension(format!("{}.callgrind", name.replace(' ', "_")));
    let mut valgrind = Command::new("valgrind");
    valgrind
        .args(["--tool=callgrind", "--demangle=no", "--compress-strings=no", "--compress-pos=no"])
        .arg(format!("--toggle-collect={function}"))
        .arg(format!("--callgrind-out-file={}", out.display()))
        .arg(bench)
        .args([name, &CALLS.to_string()]);
    output(&mut valgrind, VALGRIND)?;
    let text = fs::read_to_string(&out)
        .map_err(|error| Failure::NotMade(format!("{}: {error}", out.display())))?;
    Ok(Profile::parse(&text))
}

impl Profile {
    /// Reads callgrind's format: `ob=` and `fn=` set where the following lines of costs belong; the
    /// line after `calls=` is the callee's, counted there.
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
            } else if line.starts_with(|c: char| c.is_ascii_digit())
                && let Some(cost) = line.split(' ').nth(1).and_then(|cost| cost.parse::<u64>().ok())
            {
                profile.instructions += cost;
                *profile.functions.entry((object.clone(), symbol.clone())).or_default() += cost;
            }
        }
        profile
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

/// The locked instructions of every function that ran.
fn locked(profile: &Profile) -> Check<Vec<String>> {
    let mut found = Vec::new();
    let mut objects = BTreeMap::new();
    // The C library has no names of its comparisons and copies, which lock nothing.
    let is_ours = |symbol: &str| !symbol.starts_with("__mem");
    for (object, symbol) in profile.functions.keys().filter(|(_, symbol)| is_ours(symbol)) {
        if !objects.contains_key(object) {
            let mut objdump = Command::new("objdump");
            objdump.args(["--disassemble", "--no-show-raw-insn", object]);
            let text = output(&mut objdump, OBJDUMP)?.stdout;
            objects.insert(object.clone(), String::from_utf8_lossy(&text).into_owned());
        }
        let Some(instructions) = body(&objects[object], symbol) else {
            return Err(Failure::Broken(format!("{object} has no code named {symbol}")));
        };
        let locked = instructions.filter(|instruction| is_locked(instruction));
        found.extend(locked.map(|instruction| format!("{instruction}  in {symbol}")));
    }
    Ok(found)
}

/// The instructions of one function in objdump's text.
fn body<'t>(text: &'t str, symbol: &str) -> Option<impl Iterator<Item = &'t str>> {
    let header = format!("<{symbol}>:");
    let mut lines = text.lines();
    lines.find(|line| line.ends_with(&header))?;
    Some(lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        // `   24cd0:\tpush   %r15`
        line.split_once(":\t").map(|(_, instruction)| instruction)
    }))
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
    use super::{Profile, body, is_locked};

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
    fn a_function_ends_at_the_empty_line() {
        let text = "\n0000000000000010 <f>:\n  10:\tpush   %rax\n  11:\tret\n\n\
                    0000000000000020 <g>:\n  20:\tlock incq (%rax)\n";
        assert_eq!(body(text, "f").map(Iterator::collect), Some(vec!["push   %rax", "ret"]));
        assert_eq!(body(text, "g").map(Iterator::collect), Some(vec!["lock incq (%rax)"]));
        assert!(body(text, "h").is_none());
    }

    #[test]
    fn costs_go_to_the_function_that_ran_them() {
        let text = "positions: line\nevents: Ir\nsummary: 7\nob=/bench\nfl=a.rs\nfn=typed\n27 2\n\
                    fi=b.rs\n3 1\ncob=/libc\ncfn=copy\ncalls=1 9\n27 4\nob=/libc\nfn=copy\n9 4\n\
                    totals: 7\n";
        let profile = Profile::parse(text);
        assert_eq!(profile.instructions, 7);
        let of = |object: &str, symbol: &str| {
            profile.functions.get(&(object.to_owned(), symbol.to_owned())).copied()
        };
        assert_eq!((of("/bench", "typed"), of("/libc", "copy")), (Some(3), Some(4)));
    }
}

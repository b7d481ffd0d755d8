//! The rank that failed first: our launcher names it, and ends with its exit code, however the
//! others ended because of it.
//!
//! Each kind of failure is combined with one reaction, or with every one if `CAUSES=all` is set.

use std::process::Output;
use std::time::Duration;
use std::{env, process, thread};

use typed_nccl::{CommConfig, Communicator, Device, Error, Result, Sum, launch, tag};

use crate::machine::{Run, Test, output};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "the_launcher_names_the_rank_that_failed_first",
        program: fails,
        test: |run| {
            let all = env::var("CAUSES").is_ok_and(|which| which == "all");
            let mut pairs = Vec::new();
            for (at, way) in WAYS.iter().enumerate() {
                let takes = TAKES.iter().enumerate();
                let takes = takes.filter(|(nth, _)| all || *nth == at % TAKES.len());
                pairs.extend(takes.map(|(_, take)| (way, *take)));
            }
            let (mut wrong, of) = (Vec::new(), pairs.len());
            for (nth, ((way, code), take)) in pairs.into_iter().enumerate() {
                let victim = [1, 0, 3, 2][nth % 4];
                let ended = fail(run, way, take, victim);
                let named = named(&ended, Some(victim), *code);
                wrong.extend(named.map_err(|said| format!("{way}, {take}: {said}")).err());
            }
            assert!(wrong.is_empty(), "{} of {of}:\n{}", wrong.len(), wrong.join("\n"));
        },
    },
    Test {
        name: "the_launcher_names_a_rank_that_failed_where_none_is_the_only_cause",
        program: fails,
        test: |run| {
            // The victim is one of several, has not ended, or ended well.
            for way in ["a mismatch", "waits for ever", "finishes early"] {
                let ended = fail(run, way, "returns it", 1);
                named(&ended, None, 1).unwrap_or_else(|said| panic!("{way}: {said}"));
            }
        },
    },
    Test {
        name: "a_program_that_exits_shows_no_line_of_the_library",
        program: fails,
        test: |run| {
            let ended = fail(run, "exits", "returns it", 1);
            let said = String::from_utf8_lossy(&ended.stderr);
            let told = "rank 1 left: aborted by rank 1: the process ends";
            assert!(said.contains(told) && !said.contains("at src/"), "{said}");
        },
    },
    Test {
        name: "the_launcher_that_lets_the_others_go_on_ends_with_the_first_cause",
        program: fails,
        test: |run| {
            let mut command = run.on_gpus();
            command.env("TYPED_NCCL", "cuda:4,survive").env(WAY, "exits").env(TAKE, "exits");
            let ended = output(command.env_victim(2));
            assert_eq!(ended.status.code(), Some(7), "{ended:?}");
            let said = String::from_utf8_lossy(&ended.stderr);
            let last = said.lines().rfind(|line| line.starts_with("typed-nccl: ")).unwrap_or("");
            assert!(last.contains("rank 2 (process ") && last.contains("exit code 7"), "{said}");
        },
    },
];

/// How the victim fails, and the exit code.
const WAYS: &[(&str, i32)] = &[
    ("returns an error", 1),
    ("returns an error, and ends slowly", 1),
    ("returns an error of main's own code", 9),
    ("panics", 101),
    ("exits", 7),
    ("exits before the ranks meet", 6),
    ("is killed", 128 + libc::SIGKILL),
    ("faults", 128 + libc::SIGSEGV),
    ("aborts its process", 128 + libc::SIGABRT),
    ("refuses its part", 1),
    ("fails in a part of the ranks", 1),
    ("aborts its communicator", 1),
];

/// The others' reaction.
const TAKES: &[&str] = &[
    "returns it",
    "unwraps it",
    "exits",
    "returns an error of its own",
    "hears it on another thread",
    "faults",
];

const WAY: &str = "CAUSES_WAY";
const TAKE: &str = "CAUSES_TAKE";
const VICTIM: &str = "CAUSES_VICTIM";

trait Victim {
    fn env_victim(self, rank: usize) -> Self;
}

impl Victim for process::Command {
    fn env_victim(mut self, rank: usize) -> Self {
        self.env(VICTIM, rank.to_string());
        self
    }
}

fn fail(run: &Run, way: &str, take: &str, victim: usize) -> Output {
    let mut command = run.on_gpus();
    command.env("TYPED_NCCL", "cuda:4").env(WAY, way).env(TAKE, take);
    output(command.env_victim(victim))
}

/// Checks that it names this rank and no other, and ends with its code; else returns its output.
fn named(ended: &Output, rank: Option<usize>, code: i32) -> Result<(), String> {
    let said = String::from_utf8_lossy(&ended.stderr);
    let names = said
        .lines()
        .filter_map(|line| line.strip_prefix("typed-nccl: the first to fail was rank "));
    let names: Vec<_> = names.map(|line| line.split(' ').next().unwrap_or("")).collect();
    let is_it = rank.is_none_or(|rank| names == [rank.to_string()]);
    match is_it && names.len() == 1 && ended.status.code() == Some(code) {
        true => Ok(()),
        false => Err(format!("{rank:?} with {code}, not {names:?} with {}: {said}", ended.status)),
    }
}

tag!(Part);

fn fails() -> Result<()> {
    let way = env::var(WAY).unwrap_or_default();
    let is_victim = env::var("TYPED_NCCL_RANK").is_ok_and(|rank| env::var(VICTIM) == Ok(rank));
    if is_victim && way == "exits before the ranks meet" {
        process::exit(6);
    }
    let config = CommConfig::builder().deadline(Duration::from_secs(match &*way {
        "waits for ever" => 2,
        _ => 30,
    }));
    let outcome = launch!(body, config.build());
    if is_victim && way == "returns an error, and ends slowly" {
        thread::sleep(Duration::from_secs(1));
    }
    if is_victim && way == "returns an error of main's own code" {
        process::exit(9);
    }
    outcome
}

fn body<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let victim = env::var(VICTIM).ok().and_then(|rank| rank.parse().ok());
    if victim == Some(comm.rank().index()) {
        works(&comm, Some(3))?;
        return victims(comm);
    }
    if env::var(WAY).is_ok_and(|way| way == "fails in a part of the ranks") {
        works(&comm, Some(3))?;
        let part = comm.split::<Part>(comm.rank().index() as u32 / 2, 0)?;
        return takes(works(&part, None).and_then(|()| works(&comm, None)));
    }
    if env::var(TAKE).is_ok_and(|take| take == "hears it on another thread") {
        thread::scope(|scope| {
            scope.spawn(move || works(&comm, None).is_err()).join().expect("no panic")
        });
        return Err(Error::other("the worker ended"));
    }
    takes(works(&comm, None))
}

/// Steps that all ranks take: this many, or until one fails.
fn works<W: typed_nccl::World>(comm: &Communicator<W>, steps: Option<u32>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1.0_f32; 8])?;
    let mut step = 0;
    while Some(step) != steps {
        comm.all_reduce_in_place(&mut x, Sum)?;
        x.to_vec()?;
        step += 1;
    }
    Ok(())
}

fn victims<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    match &*env::var(WAY).unwrap_or_default() {
        "panics" => panic!("there is a bug"),
        "exits" => process::exit(7),
        "is killed" => raise(libc::SIGKILL),
        "faults" => raise(libc::SIGSEGV),
        "aborts its process" => process::abort(),
        "refuses its part" => {
            let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(9)?);
            comm.all_reduce(&x, &mut y, Sum)?;
        }
        "fails in a part of the ranks" => {
            let part = comm.split::<Part>(comm.rank().index() as u32 / 2, 0)?;
            works(&part, Some(2))?;
            return Err(Error::other("the disk is full"));
        }
        "aborts its communicator" => {
            comm.abort();
            return Err(Error::other("it makes no progress"));
        }
        "a mismatch" => {
            let mut x = comm.device().zeros::<f32>(9)?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            x.to_vec()?;
        }
        "waits for ever" => thread::sleep(Duration::from_secs(600)),
        "finishes early" => {
            let _ = comm.finish();
        }
        _ => return Err(Error::other("the disk is full")),
    }
    Ok(())
}

#[expect(clippy::unwrap_used, reason = "a program does so")]
fn takes(outcome: Result<()>) -> Result<()> {
    match &*env::var(TAKE).unwrap_or_default() {
        "unwraps it" => outcome.unwrap(),
        "exits" => {
            eprintln!("{outcome:?}");
            process::exit(4)
        }
        "returns an error of its own" => {
            return outcome.map_err(|_| Error::other("communication failed"));
        }
        "faults" => {
            drop(outcome);
            raise(libc::SIGSEGV)
        }
        _ => return outcome,
    }
    Ok(())
}

fn raise(signal: i32) -> ! {
    // SAFETY: a system call on numbers. Rust's own handler would treat it as a recurring fault.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    // SAFETY: as above.
    unsafe { libc::raise(signal) };
    process::exit(99)
}

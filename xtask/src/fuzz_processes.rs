//! Random programs of several ranks, each rank a process of this machine without a GPU.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use typed_nccl::Seat;

use super::fuzz::stress::claims;
use super::fuzz::stress::script::Script;
use super::fuzz::stress::step::COMMS;
use super::fuzz::stress::threads::perform;
use crate::{Check, Failure};

/// How long a program may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Which rank a process is, and where the ranks of each communicator meet.
const RANK: &str = "FUZZ_RANK";
const FILES: &str = "FUZZ_FILES";

/// Every so many programs have ranks that die.
const DYING: u64 = 3;

fn number(text: &str) -> Check<u64> {
    text.parse().map_err(|_| Failure::NotMade(format!("`{text}`: a number")))
}

fn script(seed: u64) -> Script {
    match seed % DYING {
        0 => Script::dying(seed),
        _ => Script::together(seed),
    }
}

/// Runs programs for so many seconds.
pub(crate) fn run(seed: &str, seconds: &str) -> Check {
    let (first, limit) = (number(seed)?, Duration::from_secs(number(seconds)?));
    let (started, mut seed, mut findings) = (Instant::now(), first, 0);
    while started.elapsed() < limit {
        if let Some(finding) = find(seed)? {
            findings += 1;
            println!("seed {seed}: {finding}");
        }
        seed += 1;
    }
    let count = seed - first;
    println!("seeds {first}..{seed}: {count} programs as processes, {findings} findings");
    match findings {
        0 => Ok(()),
        _ => Err(Failure::Broken(format!("{findings} findings"))),
    }
}

/// One rank of the program of a seed.
pub(crate) fn rank(seed: &str) -> Check {
    let script = script(number(seed)?);
    let given = |name| std::env::var(name).map_err(|error| Failure::NotMade(error.to_string()));
    let (rank, files) = (number(&given(RANK)?)?, given(FILES)?);
    let seat = |file: PathBuf| Seat::file(file, rank as usize, script.shape.ranks);
    let seats: Result<Vec<Seat>, _> = std::env::split_paths(&files).map(seat).collect();
    let seats = seats.map_err(|error| Failure::NotMade(error.to_string()))?;
    perform(seats, &script, &script.outcome());
    match claims::faults() {
        faults if faults.is_empty() => Ok(()),
        faults => Err(Failure::Broken(faults.join("; "))),
    }
}

/// Where the ranks of each communicator meet: other runs at the same time have others.
fn files(seed: u64) -> Vec<PathBuf> {
    let process = std::process::id();
    let name = |comm| format!("typed-nccl-fuzz-{process}-{seed}-{comm}");
    (0..COMMS).map(|comm| std::env::temp_dir().join(name(comm))).collect()
}

fn find(seed: u64) -> Check<Option<String>> {
    let failed = |error: std::io::Error| Failure::NotMade(error.to_string());
    let ranks = script(seed).shape.ranks;
    let files = files(seed);
    let given = std::env::join_paths(&files);
    let given = given.map_err(|error| Failure::NotMade(error.to_string()))?;
    let this = std::env::current_exe().map_err(failed)?;
    let start = |rank: usize| {
        Command::new(&this)
            .args(["fuzz", &seed.to_string(), "rank"])
            .env(RANK, rank.to_string())
            .env(FILES, &given)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
    };
    let mut children: Vec<Child> =
        (0..ranks).map(start).collect::<Result<_, _>>().map_err(failed)?;
    let started = Instant::now();
    let mut ended = false;
    while !ended && started.elapsed() < LIMIT {
        std::thread::sleep(Duration::from_millis(2));
        ended = children.iter_mut().all(|child| matches!(child.try_wait(), Ok(Some(_))));
    }
    let mut said = Vec::new();
    for (rank, mut child) in children.into_iter().enumerate() {
        let hangs = matches!(child.try_wait(), Ok(None));
        let _ = child.kill();
        let output = child.wait_with_output().map_err(failed)?;
        if hangs || !output.status.success() {
            let how = if hangs { "hangs".to_owned() } else { output.status.to_string() };
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            said.push(format!("rank {rank} of {ranks} {how}: {}", text.trim()));
        }
    }
    // Rank 0 leaves its file if it dies.
    files.iter().for_each(|file| drop(std::fs::remove_file(file)));
    Ok((!said.is_empty()).then(|| said.join("; ")))
}

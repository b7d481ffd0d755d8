//! Random programs of several ranks, each rank a process of this machine without a GPU.

use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering::Relaxed;
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
const ADDRESSES: &str = "FUZZ_ADDRESSES";

/// Where the ranks meet.
const PORTS: Range<u16> = 10_000..20_000;

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
    let (rank, addresses) = (number(&given(RANK)?)?, given(ADDRESSES)?);
    let seat = |address: &str| Seat::tcp(address, rank as usize, script.shape.ranks);
    let seats: Result<Vec<Seat>, _> = addresses.split(' ').map(seat).collect();
    let seats = seats.map_err(|error| Failure::NotMade(error.to_string()))?;
    perform(seats, &script, &script.outcome());
    match claims::faults() {
        faults if faults.is_empty() => Ok(()),
        faults => Err(Failure::Broken(faults.join("; "))),
    }
}

/// A free port below those that the system gives to connections, which could take it meanwhile.
fn listener() -> Check<TcpListener> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let bound = (0..PORTS.len()).find_map(|_| {
        let next = NEXT.fetch_add(1, Relaxed).wrapping_add(std::process::id() as u16);
        let port = PORTS.start + next % PORTS.len() as u16;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok()
    });
    bound.ok_or_else(|| Failure::NotMade(format!("no port of {PORTS:?} is free")))
}

fn find(seed: u64) -> Check<Option<String>> {
    let failed = |error: std::io::Error| Failure::NotMade(error.to_string());
    let ranks = script(seed).shape.ranks;
    let listeners: Vec<_> = (0..COMMS).map(|_| listener()).collect::<Result<_, _>>()?;
    let address = |listener: &TcpListener| Ok(listener.local_addr()?.to_string());
    let addresses: Vec<String> =
        listeners.iter().map(address).collect::<Result<_, _>>().map_err(failed)?;
    drop(listeners);
    let this = std::env::current_exe().map_err(failed)?;
    let start = |rank: usize| {
        Command::new(&this)
            .args(["fuzz", &seed.to_string(), "rank"])
            .env(RANK, rank.to_string())
            .env(ADDRESSES, addresses.join(" "))
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
    Ok((!said.is_empty()).then(|| said.join("; ")))
}

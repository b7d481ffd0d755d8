//! Ranks that are threads die at random moments, and every other rank ends with the right
//! parameters.
//!
//! `cargo run -p xtask -- deaths [SEED] [COUNT]` runs many more; `tests/processes` kills processes.

use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use typed_nccl::{AbortHandle, AnyDevice, CommConfig, Communicator, Error, Host, Result, Seat};

/// The harness would keep the trainers' output, which would count as memory they have left.
macro_rules! println {
    ($($printed:tt)*) => {
        drop(format!($($printed)*))
    };
}

#[path = "../examples/survivor.rs"]
#[allow(dead_code, reason = "it is a program of its own")]
mod survivor;

use crate::counting;
use crate::own_process::inside_for;
use survivor::Trainer;

/// The number of ranks, and which die when: after this many microseconds, or by a panic at a step.
#[derive(Clone, Debug)]
struct Deaths {
    size: usize,
    killed: Vec<(usize, u64)>,
    panics: Option<(usize, u64)>,
}

const STEPS: u64 = 300;

/// Longer means a hang.
const LIMIT: Duration = Duration::from_secs(60);

fn below(random: &mut u64, bound: u64) -> u64 {
    // A step of Knuth's generator, whose upper bits are the good ones.
    *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*random >> 33) % bound
}

impl Deaths {
    /// Up to three at once; rank 0 like any other.
    fn draw(random: &mut u64) -> Self {
        let size = 2 + below(random, 6) as usize;
        let mut ranks: Vec<usize> = (0..size).collect();
        let count = 1 + below(random, 3.min(size as u64 - 1));
        let mut victims: Vec<usize> = (0..count)
            .map(|_| ranks.swap_remove(below(random, ranks.len() as u64) as usize))
            .collect();
        let panics = match below(random, 3) {
            0 => victims.pop().map(|victim| (victim, below(random, STEPS))),
            _ => None,
        };
        let first = below(random, 30_000);
        let after = |random: &mut u64| {
            let most = [1, 300, 3_000][below(random, 3) as usize];
            first + below(random, most)
        };
        let killed = victims.into_iter().map(|victim| (victim, after(random))).collect();
        Self { size, killed, panics }
    }

    fn dies(&self, rank: usize) -> bool {
        self.killed.iter().any(|(victim, _)| *victim == rank)
            || self.panics.is_some_and(|(victim, _)| victim == rank)
    }
}

/// One rank's life. A thread dies where it waits once its abort handle is used.
fn live(seat: Seat, panics: Option<u64>, born: impl FnOnce(AbortHandle)) -> Result<(u64, usize)> {
    let device = Host::<AnyDevice>::any(seat.rank().index() as u32)?;
    let config = CommConfig::builder().deadline(Duration::from_secs(20)).build();
    let comm: Communicator<Host<AnyDevice>> =
        Communicator::builder().seat(seat).device(device).config(config).build().connect()?;
    let mut trainer = Trainer::new(comm)?;
    born(trainer.comm.abort_handle());
    while trainer.step < STEPS {
        if Some(trainer.step) == panics {
            std::panic::resume_unwind(Box::new("it was to die"));
        }
        match trainer.next() {
            Err(error) if error.is_peer_failure() => {}
            stepped => stepped?,
        }
    }
    let came = (trainer.step, trainer.comm.size());
    trainer.finish()?;
    Ok(came)
}

fn happen(deaths: &Deaths) {
    let deaths = Arc::new(deaths.clone());
    let (born, births) = channel();
    let (ended, ends) = channel();
    for seat in Seat::local(deaths.size) {
        let (deaths, born, ended) = (deaths.clone(), born.clone(), ended.clone());
        thread::spawn(move || {
            let rank = seat.rank().index();
            let panics = deaths.panics.filter(|(victim, _)| *victim == rank).map(|(_, step)| step);
            let born = |handle| born.send((rank, handle)).expect("it is waited for");
            let life = std::panic::AssertUnwindSafe(|| live(seat, panics, born));
            let _ = ended.send((rank, std::panic::catch_unwind(life).map_err(drop)));
        });
    }
    drop((born, ended));
    let handles: Vec<(usize, AbortHandle)> = births.iter().take(deaths.size).collect();
    let mut killed = deaths.killed.clone();
    killed.sort_by_key(|(_, after)| *after);
    let mut now = 0;
    for (victim, after) in killed {
        thread::sleep(Duration::from_micros(after - now));
        now = after;
        let handle = handles.iter().find(|(rank, _)| *rank == victim).expect("it was born");
        // It may be over already.
        handle.1.abort("it was to die");
    }
    for _ in 0..deaths.size {
        let (rank, outcome) = match ends.recv_timeout(LIMIT) {
            Ok(ended) => ended,
            Err(RecvTimeoutError::Timeout) => panic!("a rank hangs: {deaths:?}"),
            Err(RecvTimeoutError::Disconnected) => panic!("a rank is lost: {deaths:?}"),
        };
        match outcome {
            Ok(Ok((step, _))) => assert_eq!(step, STEPS, "{deaths:?}"),
            Ok(Err(Error::Abort(_))) | Err(()) if deaths.dies(rank) => {}
            Ok(Err(error)) => panic!("rank {rank} of {deaths:?}: {error}"),
            Err(()) => panic!("rank {rank} of {deaths:?} panicked"),
        }
    }
}

#[test]
fn threads_that_die_at_random_moments() {
    let number = |name| env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
    let deaths = number("DEATHS").unwrap_or(100);
    if !inside_for(LIMIT + PATIENCE * deaths as u32, "threads_that_die_at_random_moments") {
        return;
    }
    let mut random = number("DEATHS_SEED").unwrap_or(1);
    let mut before = None;
    for death in 0..deaths {
        happen(&Deaths::draw(&mut random));
        if death == 10 {
            before = Some(Held::now());
        }
    }
    let Some(before) = before else { return };
    // Resources that end with the last ranks' threads take a moment.
    let started = Instant::now();
    while !Held::now().is_no_more_than(&before) {
        assert!(started.elapsed() < LIMIT, "{:?}, and before {before:?}", Held::now());
        thread::sleep(Duration::from_millis(10));
    }
}

/// The time for each round of deaths.
const PATIENCE: Duration = Duration::from_secs(5);

/// Bytes of what is made once and kept, such as the labels of each operation's metrics.
const KEPT: isize = if cfg!(feature = "metrics") { 24 << 10 } else { 8 << 10 };

/// The resources that this process holds, including those of dead ranks.
#[derive(Debug)]
struct Held {
    threads: usize,
    files: usize,
    children: usize,
    bytes: isize,
}

impl Held {
    fn now() -> Self {
        // The next caller closes the streams of threads that are gone.
        for seat in Seat::local(1) {
            live(seat, None, drop).expect("nobody dies");
        }
        let entries = |folder| fs::read_dir(folder).into_iter().flatten().flatten();
        let children = entries("/proc/self/task")
            .filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
        Self {
            threads: entries("/proc/self/task").count(),
            files: entries("/proc/self/fd").count(),
            children: children.map(|all| all.split_whitespace().count()).sum(),
            bytes: counting::live(),
        }
    }

    /// Lists keep their largest capacity. A leak would grow with the deaths: without the engine's
    /// sweep, by 40 KiB per hundred.
    fn is_no_more_than(&self, before: &Self) -> bool {
        (self.threads <= before.threads && self.files <= before.files)
            && (self.children == 0 && self.bytes <= before.bytes + KEPT)
    }
}

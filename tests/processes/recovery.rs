//! The time from a process's death to the next all-reduce with the right result.
//!
//! `RECOVERIES=20 cargo test --release -p tests --test processes how_long_a_recovery_takes`; on the
//! machine's own GPUs with `RECOVERIES_ON_GPUS=2`.

use std::env;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use log::{LevelFilter, Log, Metadata, Record};
use typed_nccl::{Communicator, Device, Error, Result, Sum, launch};

use crate::machine::Test;
use crate::ranks::Ranks;

pub(crate) const TESTS: &[Test] = &[
    HOW_LONG,
    Test {
        name: "an_abort_that_takes_longer_than_a_rank_may_be_silent",
        program: || launch!(recovers),
        test: |run| {
            // The others look for rank 0 while it aborts. Where ranks may share GPUs it may take 5 s.
            let mut ranks = Ranks::start(4, |rank| {
                let mut command = run.on_gpus();
                command.env("TYPED_NCCL_HEARTBEAT", "1.3");
                command.env("NCCL_MULTI_RANK_GPU_ENABLE", "1");
                command.env("FAKE_NCCL_ABORT_TAKES", if rank == 0 { "4200" } else { "0" });
                command
            });
            (0..4).for_each(|rank| ranks.hears(rank, "works"));
            ranks.kill(3);
            for (rank, ended) in ranks.ended().iter().enumerate().filter(|(rank, _)| *rank != 3) {
                assert!(ended.status.success(), "rank {rank}: {}", ended.said);
                let recovered = format!("rank {rank} of 4 is rank {rank} of 3: rank 3 lost");
                assert!(ended.said.contains(&recovered), "rank {rank}: {}", ended.said);
            }
        },
    },
];

const HOW_LONG: Test = Test {
    name: "how_long_a_recovery_takes",
    program: || {
        log::set_logger(&Notes).map_err(Error::other)?;
        log::set_max_level(LevelFilter::Info);
        launch!(recovers)
    },
    test: |run| {
        let number = |name| env::var(name).ok().and_then(|n| n.parse::<usize>().ok());
        let gpus = number("RECOVERIES_ON_GPUS");
        let size = gpus.unwrap_or(8);
        let mut times = PARTS.map(|_| Vec::new());
        for turn in 0..number("RECOVERIES").unwrap_or(1) {
            let start = |_| match gpus {
                Some(_) => run.bare(),
                None => {
                    let mut command = run.on_gpus();
                    command.env("FAKE_CUDA_DEVICES", size.to_string());
                    command
                }
            };
            let mut ranks = Ranks::start(size, start);
            (0..size).for_each(|rank| ranks.hears(rank, "works"));
            // Rank 0 too.
            let victim = (turn * 3) % size;
            let killed = now();
            ranks.kill(victim);
            for (rank, ended) in
                ranks.ended().iter().enumerate().filter(|(rank, _)| *rank != victim)
            {
                assert!(ended.status.success(), "rank {rank}: {}", ended.said);
                let said = ended.said.lines().find_map(|line| line.strip_prefix("recovered "));
                let said = said.unwrap_or_else(|| panic!("rank {rank}: {}", ended.said));
                for (times, at) in times.iter_mut().zip(said.split(' ')) {
                    times.push(at.parse::<u64>().expect("a number").saturating_sub(killed));
                }
            }
        }
        println!("after the death of one of {size} processes, of each other one:");
        for (part, times) in PARTS.iter().zip(&mut times) {
            times.sort_unstable();
            let at = |part: usize| Duration::from_micros(times[(times.len() - 1) * part / 100]);
            println!("{part}: median {:?}, 90% {:?}, slowest {:?}", at(50), at(90), at(100));
        }
    },
};

const PARTS: [&str; 4] = ["noticed", "agreed", "connected", "verified"];

/// Microseconds, on a clock that all processes share.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_micros() as u64
}

/// Records from the log when the survivors had agreed.
struct Notes;

static AGREED: AtomicU64 = AtomicU64::new(0);

impl Log for Notes {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        if record.args().to_string().contains("agreed to go on") {
            AGREED.store(now(), Relaxed);
        }
    }

    fn flush(&self) {}
}

/// Few numbers: the time to get to them matters.
const LEN: usize = 1 << 10;

fn recovers<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().zeros::<f32>(LEN)?;
    let mut step = |comm: &Communicator<D>| -> Result<bool> {
        x.copy_from(&vec![1.0; LEN])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        Ok(x.to_vec()?.iter().all(|sum| *sum == comm.size() as f32))
    };
    assert!(step(&comm)?);
    println!("works");
    while step(&comm).is_ok() {}
    let noticed = now();
    println!("{}", comm.recover()?);
    let connected = now();
    assert!(step(&comm)?);
    println!("recovered {noticed} {} {connected} {}", AGREED.load(Relaxed), now());
    comm.finish()
}

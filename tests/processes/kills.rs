//! A process that is killed at a random moment: every other one ends soon, with an error that names it.
//!
//! `KILLS=200` kills so many; `KILLS_ON_GPUS=2` on the machine's own GPUs.

use std::env;
use std::time::{Duration, Instant};

use typed_nccl::{CommConfig, Communicator, Device, Error, Result, Sum, launch};

use crate::machine::Test;
use crate::ranks::Ranks;

pub(crate) const TESTS: &[Test] = &[Test {
    name: "a_process_that_is_killed_at_any_moment",
    program: || {
        let deadline = Duration::from_secs(30);
        launch!(works, CommConfig::builder().deadline(deadline).build())
    },
    test: |run| {
        let number = |name| env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
        let gpus = number("KILLS_ON_GPUS");
        let mut random = number("KILLS_SEED").unwrap_or(1);
        let kills = number("KILLS").unwrap_or(6);
        let mut slowest = Duration::ZERO;
        for kill in 0..kills {
            let size = gpus.unwrap_or_else(|| 2 + below(&mut random, 3)) as usize;
            let victim = below(&mut random, size as u64) as usize;
            let after = Duration::from_millis(below(&mut random, 700));
            let mut ranks = match gpus {
                Some(_) => Ranks::start(size, |_| run.bare()),
                None => run.ranks(size),
            };
            for rank in 0..size {
                ranks.hears(rank, "begins");
            }
            std::thread::sleep(after);
            ranks.kill(victim);
            let killed = Instant::now();
            for (rank, ended) in ranks.ended().into_iter().enumerate() {
                if rank == victim {
                    continue;
                }
                let (code, said) = (ended.status.code(), &ended.said);
                let context =
                    format!("kill {kill}: rank {victim} of {size} after {after:?}: {said}");
                assert_eq!(code, Some(0), "{context}");
                assert!(said.contains(&format!("lost [{victim}]")), "rank {rank}, {context}");
                assert!(said.contains("process"), "rank {rank}, {context}");
            }
            slowest = slowest.max(killed.elapsed());
        }
        println!("{kills} kills: the slowest was over after {slowest:?}");
    },
}];

fn below(random: &mut u64, bound: u64) -> u64 {
    // A step of Knuth's generator; its upper bits are the good ones.
    *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*random >> 33) % bound
}

/// Everything that ranks do together, again and again, until one of them is gone. Ends well if that is
/// what it is told.
fn works<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    println!("rank {} begins", comm.rank());
    let begun = Instant::now();
    let told = loop {
        if let Err(error) = round(&mut comm) {
            break error;
        }
    };
    println!("rank {} after {:?}: {told}", comm.rank(), begun.elapsed());
    match &told {
        Error::PeerFailed(failed) => {
            println!("lost {:?}", failed.lost.iter().map(|rank| rank.index()).collect::<Vec<_>>());
            drop(comm.abort());
            Ok(())
        }
        _ => Err(told),
    }
}

fn round<D: Device>(comm: &mut Communicator<D>) -> Result<()> {
    let (rank, size) = (comm.rank().index(), comm.size());
    let mut x = comm.device().from_slice(&vec![rank as i64; 1000])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let sum = (0..size as i64).sum::<i64>();
    assert_eq!(x.to_vec()?, vec![sum; 1000]);
    let mut y = comm.device().zeros::<i64>(1000)?;
    let (left, right) = (comm.ring(-1), comm.ring(1));
    comm.group(|group| {
        group.send(&x, right)?;
        group.recv(&mut y, left)
    })?;
    comm.barrier()?;
    let (window, source) = (comm.window::<i64>(8)?, comm.window::<i64>(8)?);
    comm.put_signal(&source, right, window.at(0))?;
    comm.wait_signal(left)?;
    let ranks = comm.gather_values(&rank)?;
    assert_eq!(ranks.len(), size);
    comm.sync(comm.stream())?;
    comm.close(window)?;
    comm.close(source)?;
    Ok(())
}

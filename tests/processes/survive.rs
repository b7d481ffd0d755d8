//! Processes die, and the others continue: with the right numbers, or with a typed error.
//!
//! `cargo run -p xtask -- deaths [SEED] [COUNT]` kills that many times.

use std::env;
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{CommConfig, Communicator, Device, Result, launch};

use crate::left;
use crate::machine::{Run, Test, clear, example, on_a_new_stage, output, says, with_gpus};
use crate::ranks::{Ranks, Sign};

#[path = "../../examples/survivor.rs"]
#[allow(dead_code, reason = "it is a program of its own")]
mod survivor;

use survivor::Trainer;

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "the_survivor_as_processes",
        program: || Ok(()),
        test: |run| {
            let program = example("survivor");
            for size in [2, 4] {
                let start = |_| {
                    let mut command = with_gpus(run.by(&program.to_string_lossy(), &[]));
                    command.stdin(Stdio::null());
                    command
                };
                let ended = Ranks::start(size, start).ended();
                for (rank, ended) in ended.iter().enumerate() {
                    assert_eq!(ended.status.success(), rank != 1, "rank {rank}: {ended:?}");
                    let verified = format!("of {}: 200 steps verified", size - 1);
                    assert_eq!(ended.said.contains(&verified), rank != 1, "rank {rank}: {ended:?}");
                }
            }
        },
    },
    Test {
        name: "the_survivor_by_our_own_launcher",
        program: || Ok(()),
        test: |run| by_our_own(run, "survivor", 200),
    },
    Test {
        name: "survivors_go_back_to_a_checkpoint",
        program: || Ok(()),
        test: |run| by_our_own(run, "checkpoints", 100),
    },
    Test {
        name: "processes_that_are_killed_at_random_moments",
        program: || {
            let deadline = Duration::from_secs(20);
            launch!(trains, CommConfig::builder().deadline(deadline).build())?;
            // On GPUs nothing is counted.
            if env::var_os("FAKE_NCCL_MOVES").is_some() { left::nothing() } else { Ok(()) }
        },
        test: |run| {
            on_a_new_stage();
            let number = |name| env::var(name).ok().and_then(|n| n.parse::<u64>().ok());
            let gpus = number("DEATHS_ON_GPUS");
            let mut random = number("DEATHS_SEED").unwrap_or(1);
            let mut slowest = Duration::ZERO;
            let count = number("DEATHS").unwrap_or(5);
            for _ in 0..count {
                let deaths = Deaths::draw(&mut random, gpus);
                let took = deaths.happen(run, gpus.is_some());
                if took > slowest {
                    println!("{took:?} after the last of {deaths:?}");
                }
                slowest = slowest.max(took);
                clear(deaths.size, deaths.victims.len());
            }
            println!("{count} times; the slowest was over {slowest:?} after the last death");
        },
    },
];

/// An example whose rank 1 kills itself: our own launcher lets the others continue.
fn by_our_own(run: &Run, name: &str, steps: u64) {
    let mut command = with_gpus(run.by(&example(name).to_string_lossy(), &[]));
    command.env("TYPED_NCCL", "cuda:4,survive");
    let ended = output(command);
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    says(&ended.stderr, &["rank 1 (process ", "ended by signal 6; the others go on"]);
    for (now, rank) in [0, 2, 3].into_iter().enumerate() {
        says(&ended.stdout, &[&format!("[{rank}] rank {now} of 3: {steps} steps verified")]);
    }
}

/// Which rank is killed, and how long after the previous one.
#[derive(Debug)]
struct Deaths {
    size: usize,
    victims: Vec<(usize, Duration)>,
    /// The second dies this long after a survivor has begun to recover from the first.
    in_recovery: bool,
}

impl Deaths {
    fn draw(random: &mut u64, gpus: Option<u64>) -> Self {
        let mut below = |bound| below(random, bound);
        let size = gpus.unwrap_or_else(|| 2 + below(3)) as usize;
        let mut ranks: Vec<usize> = (0..size).collect();
        let count = 1 + below(3.min(size as u64 - 1)) as usize;
        let victims = (0..count).map(|death| {
            let victim = ranks.swap_remove(below(ranks.len() as u64) as usize);
            // Later deaths come at once, while the others look for each other, or later.
            let most = if death == 0 { 400_000 } else { [1, 20_000, 400_000][below(3) as usize] };
            (victim, Duration::from_micros(below(most)))
        });
        let victims = victims.collect();
        Self { size, victims, in_recovery: below(3) == 0 }
    }

    fn dies(&self, rank: usize) -> bool {
        self.victims.iter().any(|(victim, _)| *victim == rank)
    }

    /// The time from the last death to the end.
    fn happen(&self, run: &Run, on_gpus: bool) -> Duration {
        let all_died = Sign::new();
        let mut ranks = Ranks::start(self.size, |_| {
            let mut command = if on_gpus { run.bare() } else { run.on_gpus() };
            all_died.is_for(&mut command);
            command
        });
        for rank in 0..self.size {
            ranks.hears(rank, "begins");
        }
        let mut killed = Instant::now();
        let survivor = (0..self.size).find(|rank| !self.dies(*rank)).expect("one lives");
        for (nth, &(victim, after)) in self.victims.iter().enumerate() {
            if self.in_recovery && nth == 1 {
                ranks.hears(survivor, "recovers");
            }
            thread::sleep(after);
            ranks.kill(victim);
            killed = Instant::now();
        }
        all_died.give();
        for (rank, ended) in ranks.ended().into_iter().enumerate() {
            if !self.dies(rank) {
                let context = format!("rank {rank} of {self:?}: {}", ended.said);
                assert!(ended.status.success(), "{context}");
                assert!(ended.said.contains("steps verified"), "{context}");
            }
        }
        killed.elapsed()
    }
}

fn below(random: &mut u64, bound: u64) -> u64 {
    // A step of Knuth's generator, whose upper bits are the good ones.
    *random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    (*random >> 33) % bound
}

/// Trains until all survivors agree that all deaths are over.
fn trains<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut trainer = Trainer::new(comm)?;
    println!("rank {} begins", trainer.comm.rank());
    loop {
        if trainer.comm.health().is_err() {
            println!("recovers");
        }
        let stepped = trainer.next().and_then(|()| {
            Ok(trainer.step % 8 == 0 && *trainer.comm.agree(Sign::is_given())?.min())
        });
        match stepped {
            Ok(true) => break,
            Err(error) if !error.is_peer_failure() => return Err(error),
            _ => {}
        }
    }
    trainer.finish()
}

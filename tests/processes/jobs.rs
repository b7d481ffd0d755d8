//! Jobs whose ranks do not belong together: two jobs at one port, different secrets, different
//! sizes. Every rank soon gets an error, and no results are exchanged with the other job.

use std::env;
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{CommConfig, Communicator, Device, Result, Sum, launch};

use crate::machine::{LIMIT, Run, Test};
use crate::ranks::{Ranks, free_port};

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "two_jobs_by_hand_at_one_port",
        program: works,
        test: |run| {
            // Rank 0 of each job comes first, or the ranks of the second job have met rank 0 of the
            // first when their own comes.
            let orders: [&[(&str, usize)]; 2] = [
                &[("a", 0), ("b", 0), ("b", 1), ("b", 2), ("b", 3), ("a", 1), ("a", 2), ("a", 3)],
                &[("a", 0), ("b", 1), ("b", 2), ("b", 3), ("b", 0), ("a", 1), ("a", 2), ("a", 3)],
            ];
            let start = |order: &'static [(&str, usize)]| {
                let port = free_port();
                let mut all = Vec::new();
                for (nth, &(job, rank)) in order.iter().enumerate() {
                    // Half of them have met.
                    thread::sleep(Duration::from_millis(if nth == 4 { 500 } else { 0 }));
                    all.push(Ranks::these(1, |_| by_hand(run, job, rank, 4, port)));
                    if rank == 0 {
                        listens(port + 1);
                    }
                }
                (order, all)
            };
            // Start all first, as most of the time is waiting.
            for (order, all) in orders.map(start) {
                for (ranks, (job, rank)) in all.into_iter().zip(order) {
                    let ended = ranks.ended().swap_remove(0);
                    let context = format!("rank {rank} of job {job}: {}", ended.said);
                    assert!(!ended.status.success(), "{context}");
                    assert!(!ended.said.contains("a result"), "{context}");
                    assert!(ended.said.contains("taken twice"), "{context}");
                    assert!(ended.said.contains("MASTER_PORT"), "{context}");
                }
            }
        },
    },
    Test {
        name: "a_wrong_secret_is_told_at_once",
        program: works,
        test: |run| {
            let start = |(launcher, victim): (&'static str, usize)| {
                let (port, started) = (free_port(), Instant::now());
                let ranks = Ranks::these(SIZE, |rank| {
                    let mut command = match launcher {
                        "srun" => by_srun(run, rank, port),
                        _ => by_hand(run, "a", rank, SIZE, port),
                    };
                    let secret = if rank == victim { "another" } else { "that of the job" };
                    command.env("TYPED_NCCL_SECRET", secret);
                    command
                });
                (launcher, victim, started, ranks)
            };
            let jobs = [("srun", 2), ("by hand", 1), ("by hand", 0)].map(start);
            for (launcher, victim, started, ranks) in jobs {
                for (rank, ended) in ranks.ended().into_iter().enumerate() {
                    let context =
                        format!("{launcher}, rank {rank} of wrong {victim}: {}", ended.said);
                    let took = ended.at - started;
                    assert!(!ended.status.success() && took < DEADLINE, "{took:?}: {context}");
                    let (said, first) =
                        (errors(&ended.said), "Error: init of 4 ranks: ranks 0 and");
                    assert!(said.len() == 1 && said[0].starts_with(first), "{context}");
                    assert!(said[0].contains("TYPED_NCCL_SECRET must be the same"), "{context}");
                }
            }
        },
    },
    Test {
        name: "sizes_that_differ_are_told_in_the_same_words",
        program: works,
        test: |run| {
            let start = |sizes: [usize; SIZE]| {
                let port = free_port();
                Ranks::these(SIZE, |rank| {
                    // The last come when the first could have ended.
                    if rank > 1 {
                        thread::sleep(Duration::from_millis(500));
                    }
                    by_hand(run, "a", rank, sizes[rank], port)
                })
            };
            for ranks in [[5, 4, 4, 4], [4, 4, 4, 5]].map(start) {
                let ended = ranks.ended();
                let said: Vec<_> = ended.iter().map(|ended| errors(&ended.said)).collect();
                let is_one =
                    said.iter().all(|said| said.len() == 1 && *said == *errors(&ended[0].said));
                assert!(
                    is_one && said[0][0].contains("disagree on the number of ranks"),
                    "{said:?}"
                );
            }
        },
    },
    Test {
        name: "many_ranks_end_at_once",
        program: || launch!(reduces),
        test: |run| {
            let many = env::var("RANKS").ok().and_then(|many| many.parse().ok()).unwrap_or(20);
            let ranks = Ranks::start(many, |_| {
                let mut command = run.on_gpus();
                command.env("FAKE_CUDA_DEVICES", many.to_string());
                command
            });
            let ended = ranks.ended_within(Duration::from_secs(600));
            let failed: Vec<_> = ended.iter().filter(|ended| !ended.status.success()).collect();
            assert!(failed.is_empty(), "{} of {many}: {failed:#?}", failed.len());
        },
    },
];

const SIZE: usize = 4;

/// How long the ranks wait for each other.
const DEADLINE: Duration = Duration::from_secs(20);

fn reduces<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().from_slice(&[comm.rank().index() as u64; 64])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let ranks = comm.size() as u64;
    assert_eq!(x.to_vec()?, [ranks * (ranks - 1) / 2; 64]);
    comm.finish()
}

/// The errors in a program's output.
fn errors(said: &str) -> Vec<&str> {
    said.lines().filter(|line| line.starts_with("Error: ")).collect()
}

/// A rank as started by srun.
fn by_srun(run: &Run, rank: usize, step: u16) -> Command {
    let mut command = run.on_gpus();
    command.env("SLURM_JOB_ID", std::process::id().to_string());
    command.env("SLURM_STEP_ID", step.to_string()).env("SLURM_STEP_NODELIST", "gpu[7]");
    command.env("SLURM_PROCID", rank.to_string()).env("SLURM_NTASKS", SIZE.to_string());
    command.env("SLURM_LOCALID", rank.to_string());
    command
}

/// Names the job to which a rank belongs.
const JOB: &str = "TYPED_NCCL_TEST_JOB";

fn works() -> Result<()> {
    launch!(body, CommConfig::builder().deadline(DEADLINE).build())
}

fn body<D: Device>(comm: Communicator<D>) -> Result<()> {
    let own = env::var(JOB).unwrap_or_default();
    let jobs = comm.gather_values(&own)?;
    if jobs.iter().any(|job| *job != own) {
        println!("met {jobs:?}");
        // Ranks that are missing elsewhere have time to come.
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(10) {
            comm.health()?;
            thread::sleep(Duration::from_millis(5));
        }
    }
    let mut x = comm.device().from_slice(&[1_u64; 10])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    println!("a result: {:?}", x.to_vec()?);
    comm.finish()
}

/// A rank as started by a script.
fn by_hand(run: &Run, job: &str, rank: usize, size: usize, port: u16) -> Command {
    let mut command = run.on_gpus();
    command.env("RANK", rank.to_string()).env("WORLD_SIZE", size.to_string());
    command.env("LOCAL_RANK", rank.to_string()).env(JOB, job);
    command.env("MASTER_ADDR", "127.0.0.1").env("MASTER_PORT", port.to_string());
    command
}

/// Waits until something listens there.
fn listens(port: u16) {
    let started = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(started.elapsed() < LIMIT, "nobody listens at {port}");
        thread::sleep(Duration::from_millis(2));
    }
}

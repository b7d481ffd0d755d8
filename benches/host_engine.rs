//! The host engine. Ratios within one run are what to look at.
//!
//! * without arguments: all_reduce of f32 beside one thread that adds the same arrays in a plain
//!   loop;
//! * `mpi [rounds]`: beside Open MPI, which `mpicc` and `mpirun` stand for: both sides by turns, so
//!   many times (5), the best of each;
//! * `exact`: exact sums beside plain ones;
//! * `many [ranks..]`: how long so many ranks of one process take from their start to their end.

use std::hint::black_box;
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use typed_nccl::{DynReduceOp, Float, Host, Result, Sum, bf16, tag};

fn main() -> Result<()> {
    // Cargo adds an argument of its own.
    let arguments: Vec<String> = std::env::args().skip(1).filter(|x| x != "--bench").collect();
    let numbers: Vec<usize> = arguments.iter().filter_map(|x| x.parse().ok()).collect();
    match arguments.first().map(String::as_str) {
        Some("mpi") => beside_mpi(numbers.first().copied().unwrap_or(5)),
        Some("exact") => exact(),
        Some("many") if numbers.is_empty() => many(&[64, 256, 1000]),
        Some("many") => many(&numbers),
        _ => beside_a_loop(),
    }
}

fn beside_a_loop() -> Result<()> {
    println!(
        "{:>6} {:>10} {:>14} {:>14} {:>12} {:>8}",
        "ranks", "bytes", "waited for", "pipelined", "plain loop", "ratio"
    );
    for ranks in [2, 8] {
        for len in [1 << 8, 1 << 14, 1 << 18, 1 << 22] {
            let rounds = ((1 << 27) / (len * ranks + (1 << 13))).clamp(5, 4000);
            let (waited, pipelined) = engine(ranks, len, rounds)?;
            let plain = plain(ranks, len, rounds);
            println!(
                "{ranks:>6} {:>10} {waited:>11.1} us {pipelined:>11.1} us {plain:>9.1} us {:>8.2}",
                len * 4,
                pipelined / plain
            );
        }
    }
    Ok(())
}

/// Bytes, and how many rounds of them.
const SIZES: [(usize, usize); 4] =
    [(1 << 10, 20_000), (1 << 16, 4_000), (1 << 20, 400), (1 << 26, 12)];

fn beside_mpi(times: usize) -> Result<()> {
    let binary = mpi_program();
    println!(
        "{:>6} {:>10} {:>14} {:>14} {:>14} {:>8} {:>8}",
        "ranks", "bytes", "waited for", "pipelined", "Open MPI", "ratio", "ratio"
    );
    for ranks in [2, 8] {
        let mut best = [[f64::INFINITY; 3]; SIZES.len()];
        for _ in 0..times {
            let theirs = mpi(&binary, ranks);
            for (at, (bytes, rounds)) in SIZES.into_iter().enumerate() {
                let (waited, pipelined) = engine(ranks, bytes / 4, rounds / (ranks / 2))?;
                let mpi = theirs.get(at).copied().unwrap_or(f64::NAN);
                for (best, new) in best[at].iter_mut().zip([waited, pipelined, mpi]) {
                    *best = best.min(new);
                }
            }
        }
        for ((bytes, _), [waited, pipelined, mpi]) in SIZES.into_iter().zip(best) {
            println!(
                "{ranks:>6} {bytes:>10} {waited:>11.2} us {pipelined:>11.2} us {mpi:>11.2} us {:>8.2} {:>8.2}",
                waited / mpi,
                pipelined / mpi
            );
        }
    }
    Ok(())
}

/// `allreduce.c`, compiled; what was compiled before where there is no compiler.
fn mpi_program() -> String {
    let binary = concat!(env!("CARGO_TARGET_TMPDIR"), "/allreduce").to_owned();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/allreduce.c");
    let compiled = Command::new("mpicc").args(["-O2", "-o", &binary, source]).status();
    if !compiled.is_ok_and(|status| status.success()) {
        eprintln!("mpicc does not compile {source}");
    }
    binary
}

/// Microseconds of each size; nothing where MPI is not there.
fn mpi(binary: &str, ranks: usize) -> Vec<f64> {
    let mut command = Command::new("mpirun");
    command.args(["--allow-run-as-root", "--oversubscribe", "-n", &ranks.to_string(), binary]);
    for (bytes, rounds) in SIZES {
        command.args([bytes.to_string(), (rounds / (ranks / 2)).to_string()]);
    }
    let output = command.output().map(|output| output.stdout).unwrap_or_default();
    String::from_utf8_lossy(&output).lines().filter_map(|line| line.parse().ok()).collect()
}

tag!(Half);

fn many(counts: &[usize]) -> Result<()> {
    const STEPS: [&str; 5] = ["connect", "barrier", "all_reduce", "split", "finish"];
    for &ranks in counts {
        let (start, times) = (Instant::now(), Mutex::new([0_f64; STEPS.len()]));
        let step = |at: usize| {
            let mut times = times.lock().unwrap_or_else(PoisonError::into_inner);
            times[at] = times[at].max(start.elapsed().as_secs_f64());
        };
        Host::spmd(ranks, |place| -> Result<()> {
            let mut comm = place.init()?;
            step(0);
            comm.barrier()?;
            step(1);
            let mut x = comm.device().from_slice(&[1_f32; 256])?;
            comm.all_reduce_in_place(&mut x, Sum)?;
            assert!(x.to_vec()?.iter().all(|sum| *sum == ranks as f32));
            step(2);
            let half = comm.split::<Half>(comm.rank().index() as u32 % 2, 0)?;
            step(3);
            half.finish()?;
            comm.finish()?;
            step(4);
            Ok(())
        })?;
        print!("{ranks:>5} ranks {:>7.3} s:", start.elapsed().as_secs_f64());
        for (name, time) in STEPS.iter().zip(*times.lock().unwrap_or_else(PoisonError::into_inner))
        {
            print!("  {name} by {time:.3}");
        }
        println!();
    }
    Ok(())
}

/// Microseconds per all_reduce: each waited for, and enqueued one after the other.
fn engine(ranks: usize, len: usize, rounds: usize) -> Result<(f64, f64)> {
    let per_rank = Host::spmd(ranks, |place| -> Result<(f64, f64)> {
        let comm = place.init()?;
        let x = comm.device().from_slice(&vec![1_f32; len])?;
        let mut y = comm.device().zeros::<f32>(len)?;
        for _ in 0..10 {
            comm.all_reduce(&x, &mut y, Sum)?;
        }
        comm.sync(comm.stream())?;
        comm.barrier()?;
        let start = Instant::now();
        for _ in 0..rounds {
            comm.all_reduce(&x, &mut y, Sum)?;
            comm.sync(comm.stream())?;
        }
        let waited = micros(start, rounds);
        comm.barrier()?;
        let start = Instant::now();
        for _ in 0..rounds {
            comm.all_reduce(&x, &mut y, Sum)?;
        }
        comm.sync(comm.stream())?;
        let pipelined = micros(start, rounds);
        comm.finish()?;
        Ok((waited, pipelined))
    })?;
    Ok(per_rank.into_iter().fold((0.0, 0.0), |a: (f64, f64), b| (a.0.max(b.0), a.1.max(b.1))))
}

/// The best of five rounds, by turns.
fn exact() -> Result<()> {
    println!(
        "{:>6} {:>6} {:>10} {:>14} {:>10} {:>10}",
        "ranks", "type", "elements", "Sum", "exact", "mean"
    );
    for ranks in [2, 8] {
        for len in [1 << 10, 1 << 20] {
            beside_sums(ranks, len, "bf16", bf16::from_f64)?;
            beside_sums(ranks, len, "f32", |x| x as f32)?;
            beside_sums(ranks, len, "f64", |x| x)?;
        }
    }
    Ok(())
}

fn beside_sums<T: Float>(ranks: usize, len: usize, name: &str, of: fn(f64) -> T) -> Result<()> {
    const OPS: [DynReduceOp; 3] = [DynReduceOp::Add, DynReduceOp::ExactAdd, DynReduceOp::ExactMean];
    let rounds = ((1 << 23) / (len * ranks)).clamp(2, 400);
    let per_rank = Host::spmd(ranks, |place| -> Result<[f64; 3]> {
        let comm = place.init()?;
        // Of either sign, from 2^-10 to 2^10.
        let mut random = comm.rank().index() as u64 + 1;
        let mut next = || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mantissa = (random >> 11) as f64 / 2_f64.powi(52) - 1.0;
            of(mantissa * 2_f64.powi((random >> 5 & 15) as i32 - 5))
        };
        let values: Vec<T> = (0..len).map(|_| next()).collect();
        let x = comm.device().from_slice(&values)?;
        let mut y = comm.device().zeros::<T>(len)?;
        let mut best = [f64::INFINITY; 3];
        for _ in 0..5 {
            for (best, op) in best.iter_mut().zip(OPS) {
                comm.barrier()?;
                let start = Instant::now();
                for _ in 0..rounds {
                    comm.all_reduce(&x, &mut y, op)?;
                }
                comm.sync(comm.stream())?;
                *best = best.min(micros(start, rounds));
            }
        }
        comm.finish()?;
        Ok(best)
    })?;
    let [sum, exact, mean] =
        [0, 1, 2].map(|op| per_rank.iter().fold(0.0, |a: f64, b| a.max(b[op])));
    let (exact, mean) = (exact / sum, mean / sum);
    println!("{ranks:>6} {name:>6} {len:>10} {sum:>11.1} us {exact:>8.2} x {mean:>8.2} x");
    Ok(())
}

/// Microseconds for one thread to add `ranks` arrays and write the sum `ranks` times.
fn plain(ranks: usize, len: usize, rounds: usize) -> f64 {
    let inputs = vec![vec![1_f32; len]; ranks];
    let mut outputs = vec![vec![0_f32; len]; ranks];
    let start = Instant::now();
    for _ in 0..rounds {
        let (first, rest) = outputs.split_at_mut(1);
        first[0].copy_from_slice(&inputs[0]);
        for input in &inputs[1..] {
            for (sum, x) in first[0].iter_mut().zip(input) {
                *sum += x;
            }
        }
        for output in rest {
            output.copy_from_slice(&first[0]);
        }
        black_box(&mut outputs);
    }
    micros(start, rounds)
}

fn micros(start: Instant, rounds: usize) -> f64 {
    start.elapsed().as_secs_f64() * 1e6 / rounds as f64
}

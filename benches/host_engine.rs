//! The host engine: all_reduce of f32 beside one thread that adds the same arrays in a plain loop.
//! Ratios within one run are what to look at.

use std::hint::black_box;
use std::time::Instant;

use typed_nccl::{Host, Result, Sum};

fn main() -> Result<()> {
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

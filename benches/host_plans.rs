//! Plans on the host engine beside the calls that do the same, all by turns. Ratios are what to look
//! at: `host_plans [ranks] [elements] [rounds] [way]`, of 8, 65,536, 100 and all ways by number.

use std::time::Instant;

use typed_nccl::plans::{
    halving_all_reduce, one_shot_all_reduce, ring_all_reduce, two_shot_all_reduce,
};
use typed_nccl::{Communicator, Device, Host, Result, Sum, plan};

plan! {
    gather<T: Element>(n: Ranks, len: usize) {
        in x: [T; len];
        out all: [T; n * len];
        all_gather(x -> all);
    }
}

plan! {
    gather_by_messages<T: Element>(n: Ranks, len: usize) {
        inout all: [T; n * len];
        group {
            for i in 1..n {
                send all.chunk(n, rank) to (rank + i) % n into all.chunk(n, rank);
            }
        }
        computes all_gather(all);
    }
}

const WAYS: [&str; 8] = [
    "all_reduce",
    "ring_all_reduce",
    "halving_all_reduce",
    "two_shot_all_reduce",
    "one_shot_all_reduce",
    "all_gather",
    "a plan of one all_gather",
    "a plan of messages to all",
];
/// The call that each is compared with.
const BESIDE: [usize; WAYS.len()] = [0, 0, 0, 0, 0, 5, 5, 5];
const TURNS: usize = 7;

fn main() -> Result<()> {
    let numbers: Vec<usize> = std::env::args().filter_map(|x| x.parse().ok()).collect();
    let number = |at: usize, default| numbers.get(at).copied().unwrap_or(default);
    let (ranks, len, rounds) = (number(0, 8), number(1, 1 << 16), number(2, 100));
    let only = numbers.get(3).copied();
    let per_rank = Host::spmd(ranks, |place| times(place.init()?, len, rounds, only))?;
    println!("{ranks} ranks, {len} elements, microseconds a round, the best of {TURNS} turns");
    println!("{:<28} {:>10} {:>7} {:>10} {:>7}", "", "waited for", "ratio", "enqueued", "ratio");
    let slowest =
        |way: usize, how: usize| per_rank.iter().fold(0.0, |a: f64, b| a.max(b[way][how]));
    for (way, name) in WAYS.into_iter().enumerate() {
        let [(waited, by), (enqueued, than)] =
            [0, 1].map(|how| (slowest(way, how), slowest(BESIDE[way], how)));
        let (waited_ratio, ratio) = (waited / by, enqueued / than);
        println!("{name:<28} {waited:>10.1} {waited_ratio:>7.2} {enqueued:>10.1} {ratio:>7.2}");
    }
    Ok(())
}

/// The microseconds of each way: waited for, and enqueued.
fn times<D: Device>(
    mut comm: Communicator<D>,
    len: usize,
    rounds: usize,
    only: Option<usize>,
) -> Result<[[f64; 2]; WAYS.len()]> {
    let n = comm.size();
    let mut ring = ring_all_reduce::bind::<f32, _>(&mut comm, ring_all_reduce::Params { len })?;
    let mut halving =
        halving_all_reduce::bind::<f32, _>(&mut comm, halving_all_reduce::Params { len })?;
    let mut two =
        two_shot_all_reduce::bind::<f32, _>(&mut comm, two_shot_all_reduce::Params { len })?;
    let mut one =
        one_shot_all_reduce::bind::<f32, _>(&mut comm, one_shot_all_reduce::Params { len })?;
    let mut gather = gather::bind::<f32, _>(&mut comm, gather::Params { len })?;
    let mut messages =
        gather_by_messages::bind::<f32, _>(&mut comm, gather_by_messages::Params { len })?;
    let mut x = comm.device().zeros::<f32>(len)?;
    let mut all = comm.device().zeros::<f32>(n * len)?;
    let mut best = [[f64::INFINITY; 2]; WAYS.len()];
    for turn in 0..=TURNS {
        for (way, best) in best.iter_mut().enumerate() {
            if only.is_some_and(|only| only != way) {
                continue;
            }
            for (how, best) in best.iter_mut().enumerate() {
                comm.barrier()?;
                let start = Instant::now();
                for round in 0..rounds {
                    match way {
                        0 => comm.all_reduce_in_place(&mut x, Sum)?,
                        1 => ring.run(&comm, ring_all_reduce::Buffers { x: &mut x })?,
                        2 => halving.run(&comm, halving_all_reduce::Buffers { x: &mut x })?,
                        3 => two.run(&comm, two_shot_all_reduce::Buffers { x: &mut x })?,
                        4 => one.run(&comm, one_shot_all_reduce::Buffers { x: &mut x })?,
                        5 => comm.all_gather(&x, &mut all)?,
                        6 => gather.run(&comm, gather::Buffers { x: &x, all: &mut all })?,
                        _ => messages.run(&comm, gather_by_messages::Buffers { all: &mut all })?,
                    }
                    if how == 0 || round + 1 == rounds {
                        match way {
                            1 => ring.submitted(&comm)?.wait()?,
                            2 => halving.submitted(&comm)?.wait()?,
                            3 => two.submitted(&comm)?.wait()?,
                            4 => one.submitted(&comm)?.wait()?,
                            6 => gather.submitted(&comm)?.wait()?,
                            7 => messages.submitted(&comm)?.wait()?,
                            _ => comm.sync(comm.stream())?,
                        }
                    }
                }
                let micros = start.elapsed().as_secs_f64() * 1e6 / rounds as f64;
                // The first turn warms up.
                if turn > 0 {
                    *best = best.min(micros);
                }
            }
        }
    }
    comm.finish()?;
    Ok(best)
}

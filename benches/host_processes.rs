//! all_reduce of ranks on the host, waited for each time and enqueued one after the other: as
//! threads with `TYPED_NCCL=host:2`, as processes with `TYPED_NCCL=host:2,processes`. Numbers of
//! bytes as arguments choose among the sizes.

use std::time::{Duration, Instant};

use typed_nccl::{Communicator, Device, Result, Sum, launch};

/// Bytes, and how many turns of them.
const SIZES: [(usize, usize); 5] =
    [(1 << 10, 5000), (1 << 16, 2000), (1 << 20, 400), (1 << 24, 40), (1 << 26, 15)];

/// How many are enqueued before a wait.
const ROW: usize = 10;

fn main() -> Result<()> {
    launch!(measure)
}

fn measure<D: Device>(comm: Communicator<D>) -> Result<()> {
    let chosen: Vec<usize> = std::env::args().filter_map(|it| it.parse().ok()).collect();
    for (bytes, turns) in SIZES {
        if !chosen.is_empty() && !chosen.contains(&bytes) {
            continue;
        }
        let own = vec![comm.rank().index() as f32 + 1.0; bytes / 4];
        let (x, mut y) = (comm.device().from_slice(&own)?, comm.device().zeros::<f32>(bytes / 4)?);
        comm.barrier()?;
        let mut waited = Vec::new();
        for _ in 0..turns {
            let started = Instant::now();
            comm.all_reduce(&x, &mut y, Sum)?;
            comm.sync(comm.stream())?;
            waited.push(started.elapsed());
        }
        comm.barrier()?;
        let mut enqueued = Vec::new();
        for _ in 0..turns.div_ceil(ROW) {
            let started = Instant::now();
            for _ in 0..ROW {
                comm.all_reduce(&x, &mut y, Sum)?;
            }
            comm.sync(comm.stream())?;
            enqueued.push(started.elapsed() / ROW as u32);
        }
        if comm.rank().index() == 0 {
            let [waited, enqueued] = [waited, enqueued].map(median);
            println!("{bytes:>10} {waited:>12.2?} waited for {enqueued:>12.2?} enqueued");
        }
    }
    comm.finish()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

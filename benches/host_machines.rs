//! all_reduce of ranks on several machines without GPUs beside MPI's own, by turns. Started by
//! `mpirun` on them: `docs/measurements.md` says how.

use std::time::Instant;

use mpi::Threading;
use mpi::collective::SystemOperation;
use mpi::traits::{Communicator as _, CommunicatorCollectives as _};
use typed_nccl::{Host, Result, Seat, Sum};

/// Bytes, and how many turns of them.
const SIZES: [(usize, usize); 5] =
    [(1 << 10, 200), (1 << 16, 200), (1 << 20, 100), (1 << 24, 20), (1 << 26, 15)];

fn main() -> Result<()> {
    let universe = mpi::initialize_with_threading(Threading::Multiple);
    let (universe, _) = universe.expect("MPI starts once");
    let world = universe.world();
    let comm = Seat::mpi(&world)?.init(Host::local()?)?;
    if comm.rank().index() == 0 {
        println!("{:>10} {:>13} {:>13} {:>14}", "bytes", "ours", "MPI", "MPI / ours");
    }
    for (bytes, turns) in SIZES {
        let own = vec![world.rank() as f32 + 1.0; bytes / 4];
        let (x, mut y) = (comm.device().from_slice(&own)?, comm.device().zeros::<f32>(bytes / 4)?);
        let mut sum = vec![0.0_f32; bytes / 4];
        let mut times = [Vec::new(), Vec::new()];
        for _ in 0..turns {
            world.barrier();
            let started = Instant::now();
            comm.all_reduce(&x, &mut y, Sum)?;
            comm.sync(comm.stream())?;
            times[0].push(started.elapsed());
            world.barrier();
            let started = Instant::now();
            world.all_reduce_into(&own[..], &mut sum[..], SystemOperation::sum());
            times[1].push(started.elapsed());
        }
        assert!(y.to_vec()? == sum, "the sums differ");
        let median = |times: &mut Vec<std::time::Duration>| {
            times.sort_unstable();
            times[turns / 2].as_secs_f64() * 1e6
        };
        let [ours, theirs] = times.each_mut().map(median);
        if comm.rank().index() == 0 {
            println!("{bytes:>10} {ours:>10.1} us {theirs:>10.1} us {:>14.2}", theirs / ours);
        }
    }
    comm.finish()
}

//! Exact sums and means beside plain sums, on all GPUs up to eight:
//! `cargo bench -p benches --bench gpu_exact`.
//!
//! For each type and size, microseconds an `all_reduce` by `Sum`, and how many times as long
//! `Sum.exact()` and `Avg.exact()` take, each also in a graph. By turns, the best of five rounds, of
//! the slowest rank. `-- --ranks 4` on one GPU takes `NCCL_MULTI_RANK_GPU_ENABLE=1`.

use std::time::Instant;

use typed_nccl::{Communicator, Cuda, Device, DynReduceOp, Error, Float, Max, Result, World, bf16};

const SIZES: [usize; 6] = [1 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20];

const OPS: [DynReduceOp; 3] = [DynReduceOp::Add, DynReduceOp::ExactAdd, DynReduceOp::ExactMean];

const ROUNDS: usize = 5;

/// Microseconds of `each`, the slowest rank's.
fn timed<W: World>(
    comm: &mut Communicator<W>,
    times: usize,
    mut each: impl FnMut(&mut Communicator<W>) -> Result<()>,
) -> Result<f64> {
    let mut slowest = comm.device().zeros::<f64>(1)?;
    comm.barrier()?;
    let started = Instant::now();
    (0..times).try_for_each(|_| each(comm))?;
    comm.sync(comm.stream())?;
    slowest.copy_from(&[started.elapsed().as_secs_f64() * 1e6 / times as f64])?;
    comm.all_reduce_in_place(&mut slowest, Max)?;
    Ok(slowest.to_vec()?[0])
}

fn beside_sums<T: Float, W: World>(
    comm: &mut Communicator<W>,
    bytes: usize,
    (name, of): (&str, fn(f64) -> T),
) -> Result<()> {
    let len = bytes / size_of::<T>();
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
    let times = ((64 << 20) / bytes).clamp(10, 200);
    let mut best = [[f64::INFINITY; 2]; 3];
    for _ in 0..ROUNDS {
        for (best, op) in best.iter_mut().zip(OPS) {
            let eager = timed(comm, times, |comm| comm.all_reduce(&x, &mut y, op))?;
            let mut graph = comm.capture(|g| g.all_reduce(&x, &mut y, op))?;
            graph.launch(comm)?;
            let captured = timed(comm, times, |comm| graph.launch(comm))?;
            *best = [best[0].min(eager), best[1].min(captured)];
        }
    }
    let [sum, exact, mean] = best;
    let of = |other: [f64; 2], at: usize| other[at] / sum[at];
    if comm.rank().index() == 0 {
        println!(
            "{name:>6} {bytes:>9} {:>10.1} us {:>7.2} x {:>7.2} x {:>10.1} us {:>7.2} x {:>7.2} x",
            sum[0],
            of(exact, 0),
            of(mean, 0),
            sum[1],
            of(exact, 1),
            of(mean, 1),
        );
    }
    Ok(())
}

fn main() -> Result<(), Error> {
    let gpus = match Cuda::count() {
        Ok(0) => {
            println!("SKIPPED: no GPU");
            return Ok(());
        }
        Ok(gpus) => gpus,
        Err(error) => {
            println!("SKIPPED: {error}");
            return Ok(());
        }
    };
    let mut asked = std::env::args().skip_while(|argument| argument != "--ranks").skip(1);
    let ranks = asked.next().and_then(|ranks| ranks.parse().ok()).unwrap_or_else(|| gpus.min(8));
    println!(
        "{ranks} ranks\n{:>6} {:>9} {:>13} {:>9} {:>9} {:>13} {:>9} {:>9}",
        "type", "bytes", "Sum", "exact", "mean", "in a graph", "exact", "mean"
    );
    Cuda::spmd(ranks, |place| {
        let mut comm = place.init()?;
        for bytes in SIZES {
            beside_sums(&mut comm, bytes, ("f32", |x| x as f32))?;
            beside_sums(&mut comm, bytes, ("bf16", bf16::from_f64))?;
            beside_sums(&mut comm, bytes, ("f64", |x| x))?;
        }
        comm.finish()
    })
    .map(drop)
}

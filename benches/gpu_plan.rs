//! What a plan's fusion is worth, on GPUs: `cargo bench --bench gpu_plan`.
//!
//! 64 independent all_reduces of 1 KiB: declared one after another in a plan, which makes one group of them;
//! called one at a time; and recorded into one group by hand. All three in turn, on the same communicator, in
//! one run; the best of several rounds, microseconds for all 64 and the host's share of it.

use std::time::Instant;

use typed_nccl::plan::build::PlanBuilder;
use typed_nccl::plan::ir::Reduction;
use typed_nccl::plan::{self, Values};
use typed_nccl::{Buffer, Communicator, Cuda, Device, Result, Sum, World};

const COUNT: usize = 256;
const BUFFERS: usize = 64;
const ROUNDS: usize = 15;

fn main() -> Result<()> {
    let gpus = match Cuda::count() {
        Ok(0) => return skip("no GPU"),
        Ok(gpus) => gpus,
        Err(error) => return skip(&error.to_string()),
    };
    let runs = if std::env::args().any(|argument| argument == "--bench") { 200 } else { 5 };
    for n in [1, 2, 4, 8].into_iter().filter(|&n| n <= gpus) {
        let ranks = Cuda::spmd(n, |place| measure(place.init()?, runs))?;
        let slowest = |way: usize| ranks.iter().map(|rank| rank[way].0).fold(0.0, f64::max);
        let host = |way: usize| ranks.iter().map(|rank| rank[way].1).fold(0.0, f64::max);
        println!(
            "{n} GPUs, NCCL {}, {BUFFERS} all_reduces of {} B",
            Cuda::nccl_version()?,
            4 * COUNT
        );
        for (way, name) in ["plan", "one at a time", "one group by hand"].iter().enumerate() {
            println!("  {name:<18} {:9.2} us   host {:9.2} us", slowest(way), host(way));
        }
        println!("  one at a time / plan       {:8.2}", slowest(1) / slowest(0));
        println!("  plan / group by hand       {:8.3}", slowest(0) / slowest(2));
        println!("  the same, the host's share {:8.3}", host(0) / host(2));
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "ends `main`")]
fn skip(why: &str) -> Result<()> {
    println!("SKIPPED: {why}");
    Ok(())
}

/// Of each way, microseconds until the GPU is done and until the host is.
fn measure<W: World>(mut comm: Communicator<W>, runs: u32) -> Result<[(f64, f64); 3]> {
    let mut declared = PlanBuilder::new("many");
    declared.ranks(1..);
    let g = declared.array(BUFFERS as i64).in_out::<f32>("g", |_| (COUNT as i64).into());
    let net = declared.stream("net");
    declared.for_each("i", ..BUFFERS as i64, |plan, i| {
        plan.on(net).all_reduce_in_place(g.at(i), Reduction::Sum);
    });
    let checked = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
    let mut plan = plan::bind(&mut comm, checked.plan(), &Values::new())?;
    let mut buffers = Vec::new();
    for _ in 0..BUFFERS {
        buffers.push(comm.device().zeros::<f32>(COUNT)?);
    }
    let mut best = [(f64::INFINITY, f64::INFINITY); 3];
    for _ in 0..ROUNDS {
        for (way, best) in best.iter_mut().enumerate() {
            let (all, host) = time(&mut comm, runs, |comm| match way {
                0 => plan.on(comm).write("g", &mut buffers).run(&mut ()),
                1 => buffers.iter_mut().try_for_each(|one| comm.all_reduce_in_place(one, Sum)),
                _ => group(comm, &mut buffers),
            })?;
            *best = (best.0.min(all), best.1.min(host));
        }
    }
    comm.finish()?;
    Ok(best)
}

fn group<W: World>(comm: &mut Communicator<W>, all: &mut [Buffer<f32, W::Device>]) -> Result<()> {
    comm.group(|g| all.iter_mut().try_for_each(|one| g.all_reduce_in_place(one, Sum)))
}

fn time<W: World>(
    comm: &mut Communicator<W>,
    runs: u32,
    mut run: impl FnMut(&mut Communicator<W>) -> Result<()>,
) -> Result<(f64, f64)> {
    for _ in 0..3 {
        run(comm)?;
    }
    comm.sync(comm.stream())?;
    comm.barrier()?;
    let start = Instant::now();
    let mut host = 0.0;
    for _ in 0..runs {
        let begin = Instant::now();
        run(comm)?;
        host += begin.elapsed().as_secs_f64();
    }
    comm.sync(comm.stream())?;
    let micros = |seconds: f64| seconds * 1e6 / f64::from(runs);
    Ok((micros(start.elapsed().as_secs_f64()), micros(host)))
}

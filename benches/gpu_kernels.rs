//! The library's own kernels beside NCCL's, on all GPUs up to eight:
//! `cargo bench -p benches --bench gpu_kernels`.
//!
//! For each size, microseconds an all_reduce of f32, eager and in a graph of 20: of
//! `kernels.all_reduce` as it chooses its way, of each way, of `comm.all_reduce` on plain memory
//! and on symmetric windows. Then 64 of 1 KiB in one call, and all_reduce with RMSNorm beside the
//! two in turn: the sum by the kernel, then the norm by the same kernel of a communicator of one
//! rank. The best of three rounds, of the slowest rank. `-- --ranks 2` on one GPU takes
//! `NCCL_MULTI_RANK_GPU_ENABLE=1`.

use std::time::Instant;

use typed_nccl::kernels::Way;
use typed_nccl::{Communicator, Cuda, Device, Error, Graph, Max, Result, Sum, World, tag};

tag!(pub Alone);

const SIZES: [usize; 7] = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];

const ROUNDS: usize = 3;

/// How many operations a graph has.
const IN_A_GRAPH: usize = 20;

/// Microseconds of `each`, the slowest rank's, the best of the rounds.
fn timed<W: World>(
    comm: &mut Communicator<W>,
    times: usize,
    mut each: impl FnMut(&mut Communicator<W>) -> Result<()>,
) -> Result<f64> {
    let mut slowest = comm.device().zeros::<f64>(1)?;
    let mut best = f64::MAX;
    for round in 0..=ROUNDS {
        comm.barrier()?;
        let started = Instant::now();
        (0..times).try_for_each(|_| each(comm))?;
        comm.sync(comm.stream())?;
        let own = started.elapsed().as_secs_f64() * 1e6 / times as f64;
        slowest.copy_from(&[own])?;
        comm.all_reduce_in_place(&mut slowest, Max)?;
        if round > 0 {
            best = best.min(slowest.to_vec()?[0]);
        }
    }
    Ok(best)
}

/// The same of a launch, for each of its operations.
fn in_a_graph<W: World>(comm: &mut Communicator<W>, graph: &mut Graph<W>) -> Result<f64> {
    Ok(timed(comm, 50, |comm| graph.launch(comm))? / IN_A_GRAPH as f64)
}

fn told<W: World>(comm: &Communicator<W>, what: &str, (eager, graph): (f64, f64)) {
    if comm.rank().index() == 0 {
        println!("{what:44} eager {eager:8.2}  graph {graph:8.2}");
    }
}

fn sizes<W: World>(comm: &mut Communicator<W>) -> Result<()> {
    let kernels = comm.kernels()?;
    let ways = [
        ("kernels", None),
        ("OneShot", Some(Way::OneShot)),
        ("OneShotInBlocks", Some(Way::OneShotInBlocks)),
        ("TwoShot", Some(Way::TwoShot)),
    ];
    for bytes in SIZES {
        let len = bytes / 4;
        let x = comm.device().zeros::<f32>(len)?;
        let mut y = comm.device().zeros::<f32>(len)?;
        for (name, way) in ways {
            let kernels = way.map_or_else(|| kernels.clone(), |way| kernels.always(way));
            let eager = timed(comm, 500, |comm| kernels.all_reduce(comm, &x, &mut y, Sum))?;
            let mut graph = comm.capture(|g| {
                (0..IN_A_GRAPH).try_for_each(|_| kernels.all_reduce(g, &x, &mut y, Sum))
            })?;
            let graph = in_a_graph(comm, &mut graph)?;
            told(comm, &format!("{bytes:8} {name}"), (eager, graph));
        }
        let eager = timed(comm, 500, |comm| comm.all_reduce(&x, &mut y, Sum))?;
        let mut graph =
            comm.capture(|g| (0..IN_A_GRAPH).try_for_each(|_| g.all_reduce(&x, &mut y, Sum)))?;
        let graph = in_a_graph(comm, &mut graph)?;
        told(comm, &format!("{bytes:8} NCCL, plain memory"), (eager, graph));
        let x = comm.window::<f32>(len)?;
        let mut y = comm.window::<f32>(len)?;
        let eager = timed(comm, 500, |comm| comm.all_reduce(&x, &mut y, Sum))?;
        let mut graph =
            comm.capture(|g| (0..IN_A_GRAPH).try_for_each(|_| g.all_reduce(&x, &mut y, Sum)))?;
        let graph = in_a_graph(comm, &mut graph)?;
        told(comm, &format!("{bytes:8} NCCL, windows"), (eager, graph));
    }
    Ok(())
}

fn many<W: World>(comm: &mut Communicator<W>) -> Result<()> {
    let kernels = comm.kernels()?;
    let one = |_| comm.device().zeros::<f32>(256);
    let mut all = (0..64).map(one).collect::<Result<Vec<_>>>()?;
    let eager = timed(comm, 500, |comm| kernels.all_reduce_each_in_place(comm, &mut all, Sum))?;
    let mut graph = comm.capture(|g| {
        (0..IN_A_GRAPH).try_for_each(|_| kernels.all_reduce_each_in_place(g, &mut all, Sum))
    })?;
    let graph = in_a_graph(comm, &mut graph)?;
    told(comm, "64 of 1 KiB in one kernel", (eager, graph));
    let eager = timed(comm, 100, |comm| {
        comm.group(|g| all.iter_mut().try_for_each(|one| g.all_reduce_in_place(one, Sum)))
    })?;
    let mut graph = comm.capture(|g| {
        (0..IN_A_GRAPH).try_for_each(|_| {
            g.group(|g| all.iter_mut().try_for_each(|one| g.all_reduce_in_place(one, Sum)))
        })
    })?;
    let graph = in_a_graph(comm, &mut graph)?;
    told(comm, "64 of 1 KiB in a group of NCCL's", (eager, graph));
    Ok(())
}

fn norms<W: World>(comm: &mut Communicator<W>) -> Result<()> {
    let kernels = comm.kernels()?;
    for bytes in [4 << 10, 16 << 10, 64 << 10] {
        for rows in [1, 16] {
            let width = bytes / 4;
            let x = comm.device().zeros::<f32>(rows * width)?;
            let weight = comm.device().from_slice(&vec![1.0_f32; width])?;
            let mut y = comm.device().zeros::<f32>(rows * width)?;
            let eager = timed(comm, 500, |comm| {
                kernels.all_reduce_rms_norm(comm, &x, &weight, 1e-5, &mut y)
            })?;
            let mut graph = comm.capture(|g| {
                (0..IN_A_GRAPH)
                    .try_for_each(|_| kernels.all_reduce_rms_norm(g, &x, &weight, 1e-5, &mut y))
            })?;
            let graph = in_a_graph(comm, &mut graph)?;
            told(comm, &format!("{rows:3} rows of {bytes:6}, sum and norm"), (eager, graph));
        }
    }
    Ok(())
}

/// The sum, then the norm, on one stream: what a program does without the fused kernel.
fn in_turn<W: World, A: World<Device = W::Device>>(
    comm: &mut Communicator<W>,
    alone: &Communicator<A>,
) -> Result<()> {
    let (kernels, norm) = (comm.kernels()?, alone.kernels()?);
    for bytes in [4 << 10, 16 << 10, 64 << 10] {
        for rows in [1, 16] {
            let width = bytes / 4;
            let x = comm.device().zeros::<f32>(rows * width)?;
            let weight = comm.device().from_slice(&vec![1.0_f32; width])?;
            let mut sum = comm.device().zeros::<f32>(rows * width)?;
            let mut y = comm.device().zeros::<f32>(rows * width)?;
            let eager = timed(comm, 500, |comm| {
                kernels.all_reduce(comm, &x, &mut sum, Sum)?;
                let here = alone.on(comm.stream());
                norm.all_reduce_rms_norm(&here, &sum, &weight, 1e-5, &mut y)
            })?;
            if comm.rank().index() == 0 {
                println!("{rows:3} rows of {bytes:6}, sum, then norm{:12} eager {eager:8.2}", "");
            }
        }
    }
    Ok(())
}

fn measured() -> Result<()> {
    let asked = std::env::args().skip_while(|argument| argument != "--ranks").nth(1);
    let ranks = match asked.and_then(|asked| asked.parse().ok()) {
        Some(asked) => asked,
        None => Cuda::count()?.min(8),
    };
    Cuda::spmd(ranks, |place| {
        let mut comm = place.init()?;
        match comm.kernels() {
            Ok(_) => {}
            Err(error @ Error::Unsupported(_)) => {
                println!("skipped: {error}");
                return comm.finish();
            }
            Err(error) => return Err(error),
        }
        sizes(&mut comm)?;
        many(&mut comm)?;
        norms(&mut comm)?;
        let own = comm.rank().index() as u32;
        let alone = comm.split_with::<Alone>(own, 0, typed_nccl::CommConfig::default())?;
        in_turn(&mut comm, &alone)?;
        alone.finish()?;
        comm.finish()
    })
    .map(drop)
}

fn main() -> Result<()> {
    match measured() {
        Err(error @ (Error::NoDriver(_) | Error::NoSuchDevice(_) | Error::NoNccl(_))) => {
            println!("skipped: {error}");
            Ok(())
        }
        done => done,
    }
}

//! Plans on GPUs: on several streams, with compute steps, in windows.

use std::ffi::c_void;
use std::time::Instant;

use typed_nccl::error::{BindFault, WrongBecause};
use typed_nccl::plan::build::{Checked, PlanBuilder, chain, ring};
use typed_nccl::plan::{self, Swapped, Values};
use typed_nccl::{CommConfig, Cuda, Error, Max, Min, Result, Sum};
use typed_nccl_plan::build::Part;

use crate::common::{connect, ranks, says, seconds, soon};
use crate::declared::{grad_sync, halo, quiet_put, steps_of};
use crate::windows::one_sided;

/// Buckets that are filled on one stream and averaged on another, run after run without a barrier.
pub(crate) fn buckets_beside_backward() -> Result<()> {
    let sync = grad_sync();
    let sizes = [1 << 20, 3, 1 << 16, 4 << 20, 100_000];
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 60)?;
        let values = Values::new().number("k", sizes.len()).list("sizes", &sizes);
        let mut sync = plan::bind(&mut comm, sync.plan(), &values)?;
        let mut grads = Vec::new();
        for len in sizes {
            grads.push(comm.device().zeros::<f32>(len)?);
        }
        let rank = comm.rank().index() as f32;
        let mean = (comm.size() - 1) as f32 / 2.0;
        for round in 0..20 {
            let mut steps = steps_of(&comm, |call| {
                if call.name() == "apply" {
                    return Ok(());
                }
                let (i, mut g) = (call.number(0)?, call.write::<f32>(0)?);
                let value = rank + (10 * i + round) as f32;
                call.stream().launch(&mut g, move |mut g, stream| {
                    let (at, bits, len) = (g.as_mut_ptr() as u64, value.to_bits(), g.len());
                    // SAFETY: the view has this many elements of 4 bytes, and belongs to the
                    // stream.
                    let set = unsafe {
                        cudarc::driver::sys::cuMemsetD32Async(at, bits, len, stream.as_ptr().cast())
                    };
                    assert_eq!(set, cudarc::driver::sys::CUresult::CUDA_SUCCESS);
                })
            });
            sync.on(&comm).write("g", &mut grads).run(&mut steps)?;
            if round % 5 != 4 {
                continue;
            }
            for (i, grad) in grads.iter().enumerate() {
                let expected = mean + (10 * i + round) as f32;
                assert!(grad.to_vec()?.iter().all(|&x| x == expected), "bucket {i}, run {round}");
            }
        }
        comm.finish()
    })
    .map(drop)
}

/// A field that moves around the ranks, its edges by puts.
pub(crate) fn a_halo_by_puts() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    let n = ranks()?;
    if n < 2 {
        println!("SKIPPED: a ring of one has no neighbours");
        return Ok(());
    }
    let halo = halo::<u32>(2);
    let (m, h) = (4096_usize, 64);
    let own = m - 2 * h;
    Cuda::spmd(n, |place| {
        let mut comm = connect(place, 60)?;
        let rank = comm.rank().index();
        let values = Values::new().number("m", m).number("h", h);
        let (mut first, second) = (comm.window::<u32>(m)?, comm.window::<u32>(m)?);
        let start: Vec<u32> = (0..m).map(|at| (rank * own + at) as u32).collect();
        first.copy_from(&start)?;
        let mut u = Swapped::new(first, second);
        let mut halo = match plan::bind(&mut comm, halo.plan(), &values) {
            // Two signals between two ranks, with a single counter before 2.31.
            Err(Error::BadPlan(bad))
                if n == 2
                    && matches!(&bad.why, BindFault::Wrong(wrong)
                        if matches!(wrong.because, WrongBecause::OneSignal { .. })) =>
            {
                println!("SKIPPED: {bad}");
                return comm.finish();
            }
            bound => bound?,
        };
        comm.barrier()?;
        let runs = 50;
        for _ in 0..runs {
            // The data that was h places to the left arrives here: half of an edge is a
            // neighbour's.
            let mut steps = steps_of(&comm, |call| {
                let (u, mut next) = (call.read::<u32>(0)?, call.write::<u32>(0)?);
                call.stream().launch((&u, &mut next), move |(u, mut next), stream| {
                    let (from, to) = (u.as_ptr() as u64, next.as_mut_ptr() as u64);
                    let (bytes, stream): (usize, *mut c_void) = (next.len() * 4, stream.as_ptr());
                    // SAFETY: both views have at least this many bytes; the stream is the step's.
                    let copied = unsafe {
                        cudarc::driver::sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.cast())
                    };
                    assert_eq!(copied, cudarc::driver::sys::CUresult::CUDA_SUCCESS);
                })
            });
            halo.on(&comm).write("u", &mut u).run(&mut steps)?;
        }
        let whole = n * own;
        let found = u.current().slice(h..m - h).to_vec()?;
        for (at, &found) in found.iter().enumerate() {
            let from = (rank * own + at + whole - runs * h % whole) % whole;
            assert_eq!(found, (from + h) as u32, "rank {rank}, element {at}");
        }
        comm.finish()
    })
    .map(drop)
}

/// The data of a put without a signal has arrived with the next signal, which is another NCCL
/// signal.
pub(crate) fn a_put_without_a_signal() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    const LEN: usize = 4 << 20;
    let quiet = quiet_put(LEN as i64);
    let outcome = Cuda::spmd(ranks()?, |place| {
        let config = CommConfig::builder().deadline(seconds(60)).signals(2).build();
        let mut comm = place.init_with(config)?;
        let (rank, before) = (comm.rank().index() as f32, comm.ring(-1).index() as f32);
        let mut a = comm.window::<f32>(LEN)?;
        let mut b = Swapped::new(comm.window::<f32>(LEN)?, comm.window::<f32>(LEN)?);
        let mut quiet = plan::bind(&mut comm, quiet.plan(), &Values::new())?;
        for run in 0..20_u8 {
            let run = f32::from(run);
            let values: Vec<f32> = (0..LEN).map(|at| 64.0 * run + rank + (at % 7) as f32).collect();
            a.copy_from(&values)?;
            quiet.on(&comm).read("a", &a).write("b", &mut b).run(&mut ())?;
            let found = b.current().to_vec()?;
            let wrong = (0..LEN).find(|&at| found[at] != 64.0 * run + before + (at % 7) as f32);
            assert_eq!(wrong, None, "run {run}");
        }
        comm.finish()
    });
    match outcome {
        // Before 2.31 there is one signal.
        Err(error @ Error::Unsupported(_)) => {
            println!("SKIPPED: {error}");
            Ok(())
        }
        outcome => outcome.map(drop),
    }
}

/// Small all_reduces, of several types and reductions, by this library's own kernels and by NCCL:
/// the same bits for whole numbers, run after run, call by call and captured.
pub(crate) fn small_all_reduces_by_kernels() -> Result<()> {
    let n = ranks()?;
    for seed in 0..4_u64 {
        let drawn = Drawn::new(seed);
        // NCCL does not fuse its kernels for windows; ours are one kernel.
        let windows = seed % 2 == 1;
        let told = Cuda::spmd(n, |place| -> Result<_> {
            let mut comm = connect(place, 60)?;
            let mut told = Vec::new();
            for (kernels, captured) in [(true, false), (false, false), (true, true)] {
                let plan = drawn.plan((kernels, captured), windows);
                let lens: Vec<usize> = drawn.all.iter().map(|&(len, _)| len).collect();
                let values = Values::new().list("len", &lens);
                let mut bound = plan::bind(&mut comm, plan.plan(), &values)?;
                let found = bound.schedule().why_kernels.iter().filter(|why| why.chosen).count();
                assert!(kernels || found == 0, "{}", bound.describe());
                let launches = bound.schedule().ranks[0].calls.len();
                assert!(found == 0 || launches < 10, "{}", bound.describe());
                told.push(found);
                let rank = comm.rank().index();
                let start = drawn.all.iter().map(|&(len, _)| {
                    (0..len).map(|at| ((at + len + rank) % 7) as f32).collect::<Vec<_>>()
                });
                let mut found = Vec::new();
                if windows {
                    let mut memory = Vec::new();
                    for start in start {
                        let mut one = comm.window::<f32>(start.len())?;
                        one.copy_from(&start)?;
                        memory.push(one);
                    }
                    for _ in 0..3 {
                        bound.on(&comm).write("x", &mut memory).run(&mut ())?;
                    }
                    for one in memory {
                        found.push(one.to_vec()?);
                        comm.close(one)?;
                    }
                } else {
                    let memory = start.map(|start| comm.device().from_slice(&start));
                    let mut memory = memory.collect::<Result<Vec<_>>>()?;
                    for _ in 0..3 {
                        bound.on(&comm).write("x", &mut memory).run(&mut ())?;
                    }
                    for one in &memory {
                        found.push(one.to_vec()?);
                    }
                }
                for (x, &(len, by)) in found.iter().zip(&drawn.all) {
                    let expected: Vec<f32> =
                        (0..len).map(|at| drawn.thrice(by, at + len, n)).collect();
                    assert_eq!(*x, expected, "seed {seed}, {by:?} of {len}, kernels {kernels}");
                }
            }
            comm.finish()?;
            Ok(told)
        })?;
        if told.iter().any(|told| told[0] == 0) {
            println!("SKIPPED: no kernels of this library here");
        }
    }
    Ok(())
}

/// Small messages and all_to_alls, by this library's own kernels and by NCCL: to both neighbours
/// around a ring, and along a line, whose ends have one neighbour; run after run, call by call and
/// captured.
pub(crate) fn small_messages_by_kernels() -> Result<()> {
    let n = ranks()?;
    let told = Cuda::spmd(n, |place| -> Result<_> {
        let mut comm = connect(place, 60)?;
        let (rank, mut told) = (comm.rank().index(), 0);
        for len in [1, 300, 5000] {
            for (kernels, captured) in [(true, false), (false, false), (true, true)] {
                let plan = messages(kernels, captured);
                let values = Values::new().number("len", len);
                let mut bound = plan::bind(&mut comm, plan.plan(), &values)?;
                let found = bound.schedule().why_kernels.iter().filter(|why| why.chosen).count();
                assert!(kernels || found == 0, "{}", bound.describe());
                told += found;
                let of = |rank: usize, at: usize| (1000 * rank + at) as f32;
                let start: Vec<f32> = (0..3 * len).map(|at| of(rank, at)).collect();
                let blocks: Vec<f32> = (0..n * len).map(|at| of(rank, at)).collect();
                let a = comm.device().from_slice(&start)?;
                let mut b = comm.device().from_slice(&vec![-1.0_f32; 3 * len])?;
                let c = comm.device().from_slice(&blocks)?;
                let mut d = comm.device().zeros::<f32>(n * len)?;
                for _ in 0..5 {
                    let run = bound.on(&comm).read("a", &a).write("b", &mut b);
                    run.read("c", &c).write("d", &mut d).run(&mut ())?;
                }
                let from = [Some((rank + n - 1) % n), rank.checked_sub(1), Some(rank + 1)];
                let from = from.map(|rank| rank.filter(|rank| *rank < n));
                let expected =
                    (0..3 * len).map(|at| from[at / len].map_or(-1.0, |rank| of(rank, at)));
                assert_eq!(b.to_vec()?, expected.collect::<Vec<_>>(), "{len}, kernels {kernels}");
                let expected = (0..n * len).map(|at| of(at / len, rank * len + at % len));
                assert_eq!(d.to_vec()?, expected.collect::<Vec<_>>(), "{len}, kernels {kernels}");
            }
        }
        comm.finish()?;
        Ok(told)
    })?;
    if n > 1 && told.contains(&0) {
        println!("SKIPPED: no kernels of this library here");
    }
    Ok(())
}

/// A rank refuses its run: the others, whose kernels wait for it, get an error, including those
/// that it sends nothing.
pub(crate) fn a_refused_run_of_kernels() -> Result<()> {
    let n = ranks()?;
    Cuda::spmd(n, |place| {
        let mut comm = connect(place, 60)?;
        let (plan, len) = (messages(true, false), 256);
        let mut bound = plan::bind(&mut comm, plan.plan(), &Values::new().number("len", len))?;
        let is_first = comm.rank().index() == 0;
        let a = comm.device().zeros::<f32>(3 * len)?;
        let mut b = comm.device().zeros::<f32>(3 * len - usize::from(is_first))?;
        let c = comm.device().zeros::<f32>(n * len)?;
        let mut d = comm.device().zeros::<f32>(n * len)?;
        comm.barrier()?;
        let started = Instant::now();
        let run = bound.on(&comm).read("a", &a).write("b", &mut b).read("c", &c);
        let ran = run.write("d", &mut d).run(&mut ());
        let told = match is_first {
            true => ran.expect_err("what it gives is too short"),
            false => ran.and_then(|()| comm.sync(comm.stream())).expect_err("rank 0 is not there"),
        };
        says(&told, &["`b`", "767"]);
        drop(comm);
        soon(started);
        Ok(())
    })
    .map(drop)
}

/// Kernels on communicators of some of the ranks, concurrently with NCCL and with kernels on all of
/// them.
pub(crate) fn kernels_of_some_ranks() -> Result<()> {
    let n = ranks()?;
    if n % 2 == 1 {
        println!("SKIPPED: rows of two ranks take an even number of them");
        return Ok(());
    }
    let told = Cuda::spmd(n, |place| -> Result<_> {
        let mut comm = connect(place, 60)?;
        let (rank, mut told) = (comm.rank().index(), 0);
        for (kernels, captured) in [(true, false), (false, false), (true, true)] {
            let plan = rows(kernels, captured);
            let values = Values::new().axis("rows", n / 2).axis("columns", 2);
            let mut bound = plan::bind(&mut comm, plan.plan(), &values)?;
            let found = bound.schedule().why_kernels.iter().filter(|why| why.chosen).count();
            // Two for rows, one for all.
            assert!(found == 0 || (kernels && found == 3), "{}", bound.describe());
            told += found;
            let mut x = comm.device().from_slice(&[rank as f32; 300])?;
            let mut y = comm.device().from_slice(&[1.0_f32; 7])?;
            let mut z = comm.device().zeros::<f32>(300)?;
            for _ in 0..3 {
                let run = bound.on(&comm).write("x", &mut x).write("y", &mut y);
                run.write("z", &mut z).run(&mut ())?;
            }
            let row = (rank / 2 * 2) as f32;
            // The sums of the row, doubled in each run; the row's other rank has the same.
            assert_eq!(x.to_vec()?, [(2.0 * row + 1.0) * 4.0; 300], "kernels {kernels}");
            assert_eq!(z.to_vec()?, x.to_vec()?);
            assert_eq!(y.to_vec()?, [(2 * n).pow(3) as f32; 7]);
        }
        comm.finish()?;
        Ok(told)
    })?;
    if told.contains(&0) {
        println!("SKIPPED: no kernels of this library here");
    }
    Ok(())
}

/// Each row sums up and passes its data around, and then all ranks sum up.
fn rows(kernels: bool, captured: bool) -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("rows");
    let (_, columns) = (plan.axis("rows", 1..), plan.axis("columns", 2..));
    if captured {
        plan.captured();
    }
    if !kernels {
        plan.without_kernels();
    }
    let (x, y) = (plan.in_out::<f32>("x", 300), plan.in_out::<f32>("y", 7));
    let z = plan.in_out::<f32>("z", 300);
    let (row, net) = (plan.communicator("row", [columns]), plan.stream("net"));
    plan.on(net).among(row).all_reduce_in_place(x, Sum);
    plan.on(net).among(row).all_reduce_in_place(y, Sum);
    plan.on(net).among(row).transfer(x, columns.ring(1), z);
    plan.on(net).all_reduce_in_place(y, Sum);
    plan.check().unwrap_or_else(|refused| panic!("{refused}"))
}

fn messages(kernels: bool, captured: bool) -> PlanBuilder<Checked> {
    let mut plan = PlanBuilder::new("messages");
    plan.ranks(1..);
    if captured {
        plan.captured();
    }
    if !kernels {
        plan.without_kernels();
    }
    let len = plan.param("len", 1..);
    let (a, b) = (plan.input::<f32>("a", 3 * len), plan.in_out::<f32>("b", 3 * len));
    let all = plan.size() * len;
    let (c, d) = (plan.input::<f32>("c", all), plan.output::<f32>("d", all));
    let net = plan.stream("net");
    let part = |at: i64| at * len..(at + 1) * len;
    plan.on(net).transfer(a.slice(part(0)), ring(1), b.slice(part(0)));
    plan.on(net).transfer(a.slice(part(1)), chain(1), b.slice(part(1)));
    plan.on(net).transfer(a.slice(part(2)), chain(-1), b.slice(part(2)));
    plan.on(net).all_to_all(c, d);
    plan.check().unwrap_or_else(|refused| panic!("{refused}"))
}

#[derive(Clone, Copy, Debug)]
enum By {
    Sum,
    Max,
    Min,
}

/// All_reduces of a plan, drawn from a seed.
struct Drawn {
    /// Their lengths and reductions.
    all: Vec<(usize, By)>,
}

impl Drawn {
    fn new(seed: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) + 1;
        let mut below = |most: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % most
        };
        let many = 1 + below(120);
        let one = |_| {
            let len = match below(4) {
                0 => 1 + below(3),
                1 => 1 + below(64),
                2 => 256,
                _ => 1 + below(3000),
            };
            let by = [By::Sum, By::Sum, By::Max, By::Min];
            (len as usize, by[below(4) as usize])
        };
        Self { all: (0..many).map(one).collect() }
    }

    fn plan(&self, (kernels, captured): (bool, bool), windows: bool) -> PlanBuilder<Checked> {
        let mut plan = PlanBuilder::new("drawn");
        plan.ranks(1..);
        if captured {
            plan.captured();
        }
        if !kernels {
            plan.without_kernels();
        }
        let count = self.all.len() as i64;
        let len = plan.list("len", count, 1..);
        if windows {
            let x = plan.window().array(count).in_out::<f32>("x", |i| len.at(i));
            self.reduce(&mut plan, |at| x.at(at));
        } else {
            let x = plan.array(count).in_out::<f32>("x", |i| len.at(i));
            self.reduce(&mut plan, |at| x.at(at));
        }
        plan.check().unwrap_or_else(|refused| panic!("{refused}"))
    }

    fn reduce<X: Part>(&self, plan: &mut PlanBuilder, x: impl Fn(i64) -> X) {
        let net = plan.stream("net");
        for (at, &(_, by)) in self.all.iter().enumerate() {
            let (x, mut plan) = (x(at as i64), plan.on(net));
            match by {
                By::Sum => plan.all_reduce_in_place(x, Sum),
                By::Max => plan.all_reduce_in_place(x, Max),
                By::Min => plan.all_reduce_in_place(x, Min),
            };
        }
    }

    /// An element after three runs, on `n` ranks.
    fn thrice(&self, by: By, at: usize, n: usize) -> f32 {
        let of = |rank: usize| ((at + rank) % 7) as f32;
        let all = (0..n).map(of);
        match by {
            By::Sum => all.sum::<f32>() * (n * n) as f32,
            By::Max => all.fold(0.0, f32::max),
            By::Min => all.fold(7.0, f32::min),
        }
    }
}

//! Exact sums and means on GPUs: the bits of the host's, in every form, at every path and size.
//!
//! `TYPED_NCCL_GPU_EXACT=64` also sums 64 MiB, and prints what that costs beside a plain sum.

use std::sync::Mutex;
use std::time::Instant;

use float8::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use typed_nccl::{
    Avg, CallConfig, Clique, Communicator, Cuda, Error, Host, ReduceOp, Result, Sum, World, spmd,
    tag,
};

use crate::common::{busy, connect, gpu, ranks, says, soon};
use values::{Real, contribution, hash};

#[path = "../exact/values.rs"]
mod values;

tag!(Second);

/// Contribution `nth` to element `at`: what sums of them make hard.
fn value<T: Real>(nth: usize, at: usize) -> T {
    let negative = 1_u64 << (8 * size_of::<T>() - 1);
    let random = hash((at * 64 + nth) as u64 + 77);
    // Half of the last place of one.
    let half = T::ONE - (u64::from(T::EXPONENT + 1) << T::EXPONENT);
    // The exponent's bits, in most types, and the largest value before.
    let infinity = (negative - 1) & !((1 << T::EXPONENT) - 1);
    let top = infinity - 1;
    let bits = match at % 10 {
        // Anything, NaN too.
        4 => random,
        5 => [top, top | negative, top, 1, 0, negative][(random % 6) as usize],
        6 => [infinity, infinity | negative, T::ONE, T::ONE, negative, 0][(random % 6) as usize],
        // Ties, and what is just beside one.
        7 => match nth {
            0 => T::ONE | (random & 1),
            1 => half,
            _ => [0, negative, 1, 1 | negative][(random % 4) as usize],
        },
        8 => {
            if random.is_multiple_of(8) {
                0
            } else {
                negative
            }
        }
        // Large ones that cancel, with something small beside them.
        9 => match nth % 3 {
            0 => top - (at as u64 % 3),
            1 => (top - (at as u64 % 3)) | negative,
            _ => T::ONE ^ (random % 16),
        },
        _ => return contribution(nth, at),
    };
    T::of(bits)
}

/// What a rank contributes.
fn values<T: Real>(rank: usize, len: usize) -> Vec<T> {
    (0..len).map(|at| value(rank, at)).collect()
}

fn bits<T: Real>(x: &[T]) -> Vec<u64> {
    x.iter().map(|x| x.bits()).collect()
}

/// Fails with the first element that differs.
#[track_caller]
fn same<T: Real>(found: &[T], needed: &[u64], ranks: usize, what: &str) {
    assert_eq!(found.len(), needed.len(), "{what}");
    let differ = |(_, (found, needed)): &(usize, (&T, &u64))| found.bits() != **needed;
    if let Some((at, (found, needed))) = found.iter().zip(needed).enumerate().find(differ) {
        let of: Vec<T> = (0..ranks).map(|rank| value(rank, at)).collect();
        let name = std::any::type_name::<T>();
        panic!("{what} of {name}, element {at}: {:x} for {needed:x}, of {of:?}", found.bits());
    }
}

/// The host's sums and means of so many elements.
struct Expected {
    sums: Vec<u64>,
    means: Vec<u64>,
}

fn expected<T: Real>(ranks: usize, len: usize) -> Result<Expected> {
    expected_of(ranks, len, value::<T>)
}

/// The host's sums and means of these contributions.
fn expected_of<T: Real>(
    ranks: usize,
    len: usize,
    value: impl Fn(usize, usize) -> T + Sync,
) -> Result<Expected> {
    let found = Mutex::new(None);
    spmd::<Host>(ranks, |place| {
        let comm = place.init()?;
        let rank = comm.rank().index();
        let own: Vec<T> = (0..len).map(|at| value(rank, at)).collect();
        let mut sums = comm.device().from_slice(&own)?;
        let mut means = comm.device().zeros::<T>(len)?;
        comm.all_reduce(&sums, &mut means, Avg.exact())?;
        comm.all_reduce_in_place(&mut sums, Sum.exact())?;
        let (sums, means) = (bits(&sums.to_vec()?), bits(&means.to_vec()?));
        if comm.rank().index() == 0 {
            *found.lock().expect("nobody panics") = Some(Expected { sums, means });
        }
        comm.finish()
    })?;
    let found = found.into_inner().expect("nobody panics");
    Ok(found.expect("rank 0 has them"))
}

/// Every form of one reduction.
fn forms<T: Real, W: World>(
    comm: &mut Communicator<W>,
    len: usize,
    op: impl ReduceOp<T, W> + Copy,
    needed: &[u64],
) -> Result<()> {
    let (n, rank) = (comm.size(), comm.rank().index());
    let device = comm.device().clone();
    let own = values::<T>(rank, len);
    let x = typed_nccl::Device::from_slice(&device, &own)?;
    let mut y = typed_nccl::Device::zeros::<T>(&device, len)?;
    comm.all_reduce(&x, &mut y, op)?;
    same(&y.to_vec()?, needed, n, "all_reduce");
    assert_eq!(bits(&x.to_vec()?), bits(&own), "what is sent stays");
    let mut z = typed_nccl::Device::from_slice(&device, &own)?;
    comm.all_reduce_in_place(&mut z, op)?;
    same(&z.to_vec()?, needed, n, "all_reduce_in_place");
    // A part of a buffer, on another stream.
    if len > 3 {
        let stream = typed_nccl::Device::stream(&device)?;
        let mut y = typed_nccl::Device::zeros::<T>(&device, len)?;
        comm.on(&stream).all_reduce(x.slice(1..len - 1), &mut y.slice_mut(2..len), op)?;
        same(&y.to_vec()?[2..], &needed[1..len - 1], n, "all_reduce of a part");
    }
    for root in [0, n - 1] {
        if let Some(y) = comm.reduce(&x, op, root)? {
            same(&y.to_vec()?, needed, n, "reduce");
        }
        let mut z = typed_nccl::Device::from_slice(&device, &own)?;
        comm.reduce_in_place(&mut z, op, root)?;
        match rank == root {
            true => same(&z.to_vec()?, needed, n, "reduce_in_place"),
            false => assert_eq!(bits(&z.to_vec()?), bits(&own), "only the root is written"),
        }
    }
    let part = len / n;
    let mut scattered = typed_nccl::Device::zeros::<T>(&device, part)?;
    comm.reduce_scatter(x.slice(0..part * n), &mut scattered, op)?;
    same_part(&scattered.to_vec()?, needed, rank * part, "reduce_scatter");
    let mut z = typed_nccl::Device::from_slice(&device, &own[..part * n])?;
    comm.reduce_scatter_in_place(&mut z, op)?;
    let found = z.to_vec()?;
    same_part(&found[rank * part..][..part], needed, rank * part, "reduce_scatter_in_place");
    // Blocks that are not all as long: a group of as many reductions as there are ranks.
    let blocks = comm.blocks(if rank == n - 1 { len - part * (n - 1) } else { part })?;
    let mut block = typed_nccl::Device::zeros::<T>(&device, blocks.range_at(comm.rank()).len())?;
    comm.reduce_scatter_v(&x, &mut block, op, &blocks)?;
    same_part(&block.to_vec()?, needed, rank * part, "reduce_scatter_v");
    Ok(())
}

#[track_caller]
fn same_part<T: Real>(found: &[T], needed: &[u64], start: usize, what: &str) {
    assert_eq!(bits(found), needed[start..][..found.len()], "{what} from element {start}");
}

fn every_form_of<T: Real>(lens: &[usize]) -> Result<()> {
    for &len in lens {
        let needed = expected::<T>(ranks()?, len)?;
        Cuda::spmd(ranks()?, |place| {
            let mut comm = connect(place, 60)?;
            forms::<T, _>(&mut comm, len, Sum.exact(), &needed.sums)?;
            forms::<T, _>(&mut comm, len, Avg.exact(), &needed.means)?;
            comm.finish()
        })?;
    }
    Ok(())
}

pub(crate) fn every_form() -> Result<()> {
    let lens = [0, 1, 2, 5, 640];
    every_form_of::<f32>(&lens)?;
    every_form_of::<f64>(&lens)?;
    every_form_of::<f16>(&lens)?;
    every_form_of::<bf16>(&lens)?;
    every_form_of::<F8E4M3>(&lens)?;
    every_form_of::<F8E5M2>(&lens)
}

/// The next path: pieces, which are not all as long.
pub(crate) fn in_pieces() -> Result<()> {
    fn of<T: Real>() -> Result<()> {
        // Above 256 KiB from all ranks together.
        let len = (256 << 10) / size_of::<T>() / ranks()? + 13;
        let more = busy(len * 64, 64).max(len);
        every_form_of::<T>(&[len, more.next_multiple_of(ranks()?)])
    }
    of::<f32>()?;
    of::<f64>()?;
    of::<bf16>()
}

/// The path of what is exchanged in several chunks.
pub(crate) fn in_chunks() -> Result<()> {
    // Just above 32 MiB, which the doubles add slowly.
    let len = (32 << 20) / 8 + 5;
    let x = |rank: usize, at: usize| (at + 3 * rank) as f64 * 0.1;
    let needed = &expected_of(ranks()?, len, x)?.sums;
    Cuda::spmd(ranks()?, |place| {
        let comm = connect(place, 120)?;
        let (n, rank) = (comm.size(), comm.rank().index());
        let own: Vec<f64> = (0..len).map(|at| x(rank, at)).collect();
        let mut y = comm.device().from_slice(&own)?;
        comm.all_reduce_in_place(&mut y, Sum.exact())?;
        let found = y.to_vec()?;
        let differs = (0..len).find(|at| found[*at].to_bits() != needed[*at]);
        assert_eq!(differs, None, "all_reduce in chunks");
        y.copy_from(&own)?;
        let mut part = comm.device().zeros::<f64>(len / n)?;
        comm.reduce_scatter(&y.slice(0..len / n * n), &mut part, Sum.exact())?;
        let start = rank * (len / n);
        assert!(part.to_vec()? == found[start..][..len / n], "reduce_scatter in chunks");
        if let Some(root) = comm.reduce(&y, Sum.exact(), n - 1)? {
            assert!(root.to_vec()? == found, "reduce in chunks");
        }
        comm.finish()
    })
    .map(drop)
}

/// Captured, beside other work, with memory of every kind, launched on two streams.
pub(crate) fn in_graphs() -> Result<()> {
    fn of<T: Real>(len: usize) -> Result<()> {
        let needed = &expected::<T>(ranks()?, len)?;
        Cuda::spmd(ranks()?, |place| {
            let mut comm = connect(place, 60)?;
            let (n, rank) = (comm.size(), comm.rank().index());
            let device = comm.device().clone();
            let own = values::<T>(rank, len);
            let x = device.from_slice(&own)?;
            let (mut y, mut means) = (device.zeros::<T>(len)?, device.zeros::<T>(len)?);
            let mut kept = device.zeros::<T>(len)?;
            // Memory of NCCL's allocator on the first rank alone.
            let mut nccls = device.nccl_zeros::<T>(len)?;
            let mut plain = device.from_slice(&own)?;
            nccls.copy_from(&own)?;
            let is_first = rank == 0;
            let mut graph = comm.capture(|g| {
                g.copy(&x, &mut kept)?;
                match is_first {
                    true => g.all_reduce_in_place(&mut nccls, Sum.exact())?,
                    false => g.all_reduce_in_place(&mut plain, Sum.exact())?,
                }
                g.group(|g| {
                    g.all_reduce(&x, &mut y, Sum.exact())?;
                    g.all_reduce(&x, &mut means, Avg.exact())
                })?;
                g.all_reduce_in_place(&mut kept, Sum.exact())
            })?;
            // Larger than what the graph uses, which stays as it is.
            let mut large = device.zeros::<T>(3 * len)?;
            comm.all_reduce_in_place(&mut large, Sum.exact())?;
            let stream = device.stream()?;
            for round in 0..3 {
                nccls.copy_from(&own)?;
                plain.copy_from(&own)?;
                y.copy_from(&own)?;
                match round {
                    1 => graph.launch_on(&comm, &stream)?,
                    _ => graph.launch(&comm)?,
                }
                let mut again = device.from_slice(&own)?;
                comm.all_reduce_in_place(&mut again, Avg.exact())?;
                let own = if is_first { nccls.to_vec()? } else { plain.to_vec()? };
                same(&own, &needed.sums, n, "in place in a graph");
                same(&y.to_vec()?, &needed.sums, n, "in a graph");
                same(&kept.to_vec()?, &needed.sums, n, "a copy in a graph");
                same(&means.to_vec()?, &needed.means, n, "a mean in a graph");
                same(&again.to_vec()?, &needed.means, n, "after a graph");
            }
            drop(graph);
            comm.finish()
        })
        .map(drop)
    }
    of::<f32>(640)?;
    of::<f64>(64)?;
    // Pieces of one length, which are gathered where they belong.
    of::<f32>(ranks()? * ((256 << 10) / 4 / ranks()? / ranks()? + 8))?;
    of::<bf16>((256 << 10) / 2 / ranks()? + 7)
}

/// Memory of every kind and streams, one after the other without a wait of the host.
pub(crate) fn on_streams() -> Result<()> {
    let len = (256 << 10) / 4 / ranks()? + 3;
    let needed = &expected::<f32>(ranks()?, len)?;
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 60)?;
        let (n, rank) = (comm.size(), comm.rank().index());
        let device = comm.device().clone();
        let own = values::<f32>(rank, len);
        let mut window = comm.window::<f32>(len)?;
        let mut nccls = device.nccl_zeros::<f32>(len)?;
        let mut plain = device.zeros::<f32>(len)?;
        let _known = comm.register_buffer(&nccls)?;
        let streams = [device.stream()?, device.stream()?];
        let mut all = [window.local_mut(), nccls.slice_mut(0..len), plain.slice_mut(0..len)];
        all.rotate_left(rank % 3);
        for round in 0..6 {
            for one in &mut all {
                one.copy_from(&own)?;
            }
            for (at, one) in all.iter_mut().enumerate() {
                comm.on(&streams[(at + round) % 2]).all_reduce_in_place(one, Sum.exact())?;
            }
            for one in &all {
                same(&one.to_vec()?, &needed.sums, n, "on a stream");
            }
        }
        comm.finish()
    })
    .map(drop)
}

/// In groups with other operations, of one communicator and of two.
pub(crate) fn in_groups() -> Result<()> {
    let len = (256 << 10) / 8 / ranks()? + 3;
    let needed = &expected::<f64>(ranks()?, len)?;
    let block = |rank: usize| if rank.is_multiple_of(2) { 40_000 } else { 100_000 };
    const SHORT: usize = 70_001;
    const LONG: usize = 140_003;
    let all: usize = (0..ranks()?).map(block).sum();
    let long = &expected::<f32>(ranks()?, all.max(LONG))?;
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 60)?;
        let mut other = comm.split::<Second>(0, 0)?;
        let (n, rank) = (comm.size(), comm.rank().index());
        let device = comm.device().clone();
        let own = values::<f64>(rank, len);
        let x = device.from_slice(&own)?;
        let (mut y, mut z) = (device.zeros::<f64>(len)?, device.zeros::<f64>(len)?);
        let mut ones = device.from_slice(&[1_u32; 100])?;
        let mut from = device.zeros::<u32>(7)?;
        let to = device.from_slice(&[rank as u32; 7])?;
        let (right, left) = (comm.ring(1), comm.ring(-1));
        comm.group(|g| {
            g.all_reduce(&x, &mut y, Sum.exact())?;
            g.send(&to, right)?;
            g.all_reduce_in_place(&mut ones, Sum)?;
            g.recv(&mut from, left)?;
            g.all_reduce(&x, &mut z, Avg.exact())
        })?;
        same(&y.to_vec()?, &needed.sums, n, "in a group");
        same(&z.to_vec()?, &needed.means, n, "in a group");
        assert_eq!(ones.to_vec()?, [n as u32; 100]);
        assert_eq!(from.to_vec()?, [((rank + n - 1) % n) as u32; 7]);
        // Sums that use the memory between in different ways.
        for [first, second] in [[SHORT, LONG], [LONG, SHORT]] {
            let a = device.from_slice(&values::<f32>(rank, first))?;
            let b = device.from_slice(&values::<f32>(rank, second))?;
            let (mut c, mut d) = (device.zeros::<f32>(first)?, device.zeros::<f32>(second)?);
            comm.group(|g| {
                g.all_reduce(&a, &mut c, Sum.exact())?;
                g.all_reduce(&b, &mut d, Avg.exact())
            })?;
            same_part(&c.to_vec()?, &long.sums, 0, "before another length");
            same_part(&d.to_vec()?, &long.means, 0, "after another length");
        }
        let blocks: Vec<usize> = (0..n).map(block).collect();
        let start: usize = blocks[..rank].iter().sum();
        let uneven = device.from_slice(&values::<f32>(rank, blocks.iter().sum()))?;
        let mut own = device.zeros::<f32>(blocks[rank])?;
        comm.reduce_scatter_v(&uneven, &mut own, Sum.exact(), &comm.blocks(blocks[rank])?)?;
        same_part(&own.to_vec()?, &long.sums, start, "blocks of two lengths");
        let (mut y, mut z) = (device.zeros::<f64>(len)?, device.zeros::<f64>(len)?);
        typed_nccl::group((&mut comm, &mut other), |(comm, other)| {
            other.all_reduce(&x, &mut z, Avg.exact())?;
            comm.all_reduce(&x, &mut y, Sum.exact())
        })?;
        same(&y.to_vec()?, &needed.sums, n, "of one of two communicators");
        same(&z.to_vec()?, &needed.means, n, "of one of two communicators");
        other.finish()?;
        comm.finish()
    })
    .map(drop)
}

/// Several ranks of one thread.
pub(crate) fn in_a_clique() -> Result<()> {
    let len = (256 << 10) / 4 / ranks()? + 3;
    let needed = expected::<f32>(ranks()?, len)?;
    let mut clique = Clique::init((0..ranks()?).map(gpu).collect::<Result<_>>()?)?;
    let mut x =
        clique.per_rank(|rank, device| device.from_slice(&values::<f32>(rank.index(), len)))?;
    let (mut y, mut z) = (clique.alloc::<f32>(len)?, clique.alloc::<f32>(len)?);
    clique.group((&x, &mut y, &mut z), |lane, (x, y, z)| {
        lane.all_reduce(x, y, Sum.exact())?;
        lane.all_reduce(x, z, Avg.exact())
    })?;
    clique.all_reduce_in_place(&mut x, Sum.exact())?;
    for (sums, needed) in [(&x, &needed.sums), (&y, &needed.sums), (&z, &needed.means)] {
        for one in clique.to_host(sums)? {
            same(&one, needed, clique.size(), "in a clique");
        }
    }
    clique.finish()
}

/// Refused before anything is sent, with what to do instead.
pub(crate) fn what_is_refused() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let mut comm = connect(place, 60)?;
        let mut x = comm.device().from_slice(&[1.0_f32; 64])?;
        let estimated = comm.estimate(|g| g.all_reduce_in_place(&mut x, Sum.exact()));
        let error = estimated.expect_err("NCCL does not know our kernels");
        if matches!(error, Error::Unsupported(_)) {
            says(&error, &["estimate"]);
        }
        let config = CallConfig::builder().profiler_tag(7).build();
        let configured = comm.with(&config).all_reduce_in_place(&mut x, Sum.exact());
        says(&configured.expect_err("NCCL only moves"), &["CallConfig"]);
        comm.all_reduce_in_place(&mut x, Sum.exact())?;
        assert_eq!(x.to_vec()?, [comm.size() as f32; 64]);
        comm.finish()
    })
    .map(drop)
}

/// A rank that adds plainly, and one that never comes.
pub(crate) fn ranks_that_differ() -> Result<()> {
    Cuda::spmd(ranks()?, |place| {
        let comm = connect(place, 60)?;
        let mut x = comm.device().zeros::<f32>(100_000)?;
        let started = Instant::now();
        let called = match comm.rank().index() {
            0 => comm.all_reduce_in_place(&mut x, Sum),
            _ => comm.all_reduce_in_place(&mut x, Sum.exact()),
        };
        let told = called.and_then(|()| comm.sync(comm.stream()));
        says(&told.expect_err("they differ"), &["Sum.exact()"]);
        drop(comm);
        soon(started);
        Ok::<_, Error>(())
    })?;
    Cuda::spmd(ranks()?, |place| {
        let comm = connect(place, 60)?;
        let mut x = comm.device().zeros::<f32>(100_000)?;
        comm.barrier()?;
        let started = Instant::now();
        if comm.rank().index() == 0 {
            comm.abort();
            return Ok(());
        }
        let called = comm.all_reduce_in_place(&mut x, Sum.exact());
        let told = called.and_then(|()| comm.sync(comm.stream()));
        says(&told.expect_err("rank 0 has aborted"), &["rank 0"]);
        drop(comm);
        soon(started);
        Ok(())
    })
    .map(drop)
}

/// The cost beside a plain sum, and the host's bits at each size.
pub(crate) fn what_it_costs() -> Result<()> {
    let asked = std::env::var("TYPED_NCCL_GPU_EXACT").ok().and_then(|asked| asked.parse().ok());
    let most = asked.map_or_else(|| busy(4 << 20, 64), |mib: usize| mib << 20);
    for bytes in [1 << 10, 64 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20] {
        if bytes > most {
            break;
        }
        let needed = &expected::<f32>(ranks()?, bytes / 4)?;
        Cuda::spmd(ranks()?, |place| {
            let comm = connect(place, 120)?;
            let (n, rank) = (comm.size(), comm.rank().index());
            // Numbers of a usual kind, then those that take longest.
            let usual: Vec<f32> = (0..bytes / 4).map(|at| (at + rank) as f32 * 0.1).collect();
            let mut x = comm.device().from_slice(&usual)?;
            let mut y = comm.device().zeros::<f32>(bytes / 4)?;
            let rounds = busy(20, 20) as u32;
            let mut best = [f64::INFINITY; 2];
            for _ in 0..3 {
                for (best, is_exact) in best.iter_mut().zip([false, true]) {
                    comm.sync(comm.stream())?;
                    comm.barrier()?;
                    let started = Instant::now();
                    for _ in 0..rounds {
                        match is_exact {
                            true => comm.all_reduce(&x, &mut y, Sum.exact())?,
                            false => comm.all_reduce(&x, &mut y, Sum)?,
                        }
                    }
                    comm.sync(comm.stream())?;
                    *best = best.min(started.elapsed().as_secs_f64() / f64::from(rounds));
                }
            }
            x.copy_from(&values::<f32>(rank, bytes / 4))?;
            comm.all_reduce(&x, &mut y, Sum.exact())?;
            same(&y.to_vec()?, &needed.sums, n, "of a large message");
            if rank == 0 {
                let [plain, exact] = best.map(|best| best * 1e6);
                let times = exact / plain;
                println!(
                    "{n} ranks, {bytes} bytes: {plain:.1} us, exact {exact:.1} us, {times:.2}"
                );
            }
            comm.finish()
        })?;
    }
    Ok(())
}

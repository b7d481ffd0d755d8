//! The library's own kernels against the collectives and transfers that they replace, on host
//! threads and on GPUs.

use half::{bf16, f16};
use typed_nccl::kernels::{Kernels, Way};
use typed_nccl::{
    Avg, Buffer, Communicator, Device, Float, Max, Min, Numeric, Prod, ReduceOp, Result, Sum, World,
};

/// An element type with a few values, whose sums and products are exact.
pub(crate) trait Few: Numeric + PartialEq + std::fmt::Debug {
    fn of(small: u8) -> Self;
}

macro_rules! few {
    ($($type:ty: $of:expr),+ $(,)?) => { $(impl Few for $type {
        fn of(small: u8) -> Self {
            $of(small)
        }
    })+ };
}

few! {
    i8: |x: u8| x as Self, u8: |x| x, i32: Self::from, u32: Self::from, i64: Self::from, u64: Self::from,
    f16: |x: u8| Self::from_f32(x.into()), bf16: |x: u8| Self::from_f32(x.into()), f32: Self::from,
    f64: Self::from,
}

/// Lengths in elements: one; not a whole line, group or batch; and several batches.
const LENGTHS: [usize; 7] = [1, 3, 31, 257, 4097, 40_003, 300_001];

const WAYS: [Way; 3] = [Way::OneShot, Way::OneShotInBlocks, Way::TwoShot];

fn values<T: Few>(rank: usize, len: usize, seed: usize) -> Vec<T> {
    (0..len).map(|i| T::of(((i * 7 + rank * 3 + seed) % 3 + 1) as u8)).collect()
}

/// Every type and reduction, each way, with odd lengths and offsets, against the communicator's
/// own.
pub(crate) fn every_type<W: World>(comm: Communicator<W>) -> Result<()> {
    let kernels = comm.kernels()?;
    of_type::<W, i8>(&comm, &kernels)?;
    of_type::<W, u8>(&comm, &kernels)?;
    of_type::<W, i32>(&comm, &kernels)?;
    of_type::<W, u32>(&comm, &kernels)?;
    of_type::<W, i64>(&comm, &kernels)?;
    of_type::<W, u64>(&comm, &kernels)?;
    of_type::<W, f16>(&comm, &kernels)?;
    of_type::<W, bf16>(&comm, &kernels)?;
    of_type::<W, f32>(&comm, &kernels)?;
    of_type::<W, f64>(&comm, &kernels)?;
    mean::<W, f16>(&comm, &kernels)?;
    mean::<W, bf16>(&comm, &kernels)?;
    mean::<W, f32>(&comm, &kernels)?;
    mean::<W, f64>(&comm, &kernels)?;
    comm.finish()
}

fn of_type<W: World, T: Few>(comm: &Communicator<W>, kernels: &Kernels<W>) -> Result<()> {
    for way in WAYS {
        let kernels = kernels.always(way);
        for (at, len) in [1, 3, 257, 4097].into_iter().enumerate() {
            alike::<W, T>(comm, &kernels, len, at % 3, Sum)?;
            alike::<W, T>(comm, &kernels, len, at % 3, Prod)?;
            alike::<W, T>(comm, &kernels, len, at % 3, Min)?;
            alike::<W, T>(comm, &kernels, len, at % 3, Max)?;
        }
    }
    Ok(())
}

/// A kernel's result equals the communicator's own, out of place and in place.
fn alike<W: World, T: Few>(
    comm: &Communicator<W>,
    kernels: &Kernels<W>,
    len: usize,
    offset: usize,
    op: impl ReduceOp<T, W> + Copy,
) -> Result<()> {
    let (rank, device) = (comm.rank().index(), comm.device());
    // Each rank's memory starts at a different offset.
    let start = if rank.is_multiple_of(2) { offset } else { 0 };
    let x = device.from_slice(&values::<T>(rank, start + len, 0))?;
    let mut expected = device.zeros::<T>(len)?;
    let (mut found, mut in_place) = (device.zeros::<T>(len + 2)?, device.zeros::<T>(start + len)?);
    let send = x.slice(start..start + len);
    comm.all_reduce(send, &mut expected, op)?;
    kernels.all_reduce(comm, send, &mut found.slice_mut(1..1 + len), op)?;
    comm.stream().copy(&x, &mut in_place)?;
    kernels.all_reduce_in_place(comm, &mut in_place.slice_mut(start..start + len), op)?;
    let (expected, found) = (expected.to_vec()?, found.to_vec()?);
    assert_eq!(found[1..=len], expected, "{len} {} from {start} on", T::DTYPE);
    assert_eq!((found[0], found[len + 1]), (T::of(0), T::of(0)), "what is beside is left alone");
    assert_eq!(in_place.to_vec()?[start..], expected, "{len} {} in place", T::DTYPE);
    Ok(())
}

fn mean<W: World, T: Few + Float>(comm: &Communicator<W>, kernels: &Kernels<W>) -> Result<()> {
    let len = 65;
    // The mean is exact.
    let x = comm.device().from_slice(&vec![T::of(comm.rank().index() as u8 * 2 + 1); len])?;
    let mut y = comm.device().zeros::<T>(len)?;
    for way in WAYS {
        kernels.always(way).all_reduce(comm, &x, &mut y, Avg)?;
        assert_eq!(y.to_vec()?, vec![T::of(comm.size() as u8); len], "{way:?}");
    }
    Ok(())
}

/// Sizes from one element to 8 MiB, one after the other without a wait: launches of any size reuse
/// the slots.
pub(crate) fn every_size<W: World>(comm: Communicator<W>, most: usize) -> Result<()> {
    let kernels = comm.kernels()?;
    let (rank, n) = (comm.rank().index(), comm.size());
    let lengths: Vec<usize> =
        LENGTHS.into_iter().chain([2 << 20]).filter(|len| *len <= most).collect();
    let mut all: Vec<(Buffer<u32, W::Device>, usize)> = Vec::new();
    for round in 0..3 {
        for (at, len) in lengths.iter().enumerate() {
            let x = comm.device().from_slice(&values::<u32>(rank, *len, round + at))?;
            let mut y = comm.device().zeros::<u32>(*len)?;
            let kernels = match (round + at) % 4 {
                3 => kernels.clone(),
                way => kernels.always(WAYS[way]),
            };
            kernels.all_reduce(&comm, &x, &mut y, Sum)?;
            all.push((y, round + at));
        }
    }
    for (y, seed) in &all {
        let y = y.to_vec()?;
        let each =
            |i: usize| (0..n).map(|rank| ((i * 7 + rank * 3 + seed) % 3 + 1) as u32).sum::<u32>();
        let wrong = y.iter().enumerate().find(|(i, sum)| **sum != each(*i));
        assert_eq!(wrong, None, "{} elements, {seed}", y.len());
    }
    comm.finish()
}

/// Many launches, on two streams in turn and in a graph that is launched between them.
pub(crate) fn streams_and_graphs<W: World>(mut comm: Communicator<W>, rounds: u32) -> Result<()> {
    let kernels = comm.kernels()?;
    let n = comm.size() as u32;
    let side = comm.device().stream()?;
    let mut x = comm.device().from_slice(&[1_u32; 1000])?;
    let mut z = comm.device().from_slice(&[1_u32; 300])?;
    let mut w = comm.device().from_slice(&[1_u32; 1000])?;
    let mut graph = comm.capture(|g| {
        kernels.all_reduce_in_place(g, &mut w, Sum)?;
        kernels.always(Way::TwoShot).all_reduce_in_place(g, &mut w, Max)?;
        g.all_reduce_in_place(&mut w, Min)?;
        kernels.all_reduce_in_place(g, &mut w.slice_mut(0..7), Sum)
    })?;
    let mut expected = [1_u32; 3];
    for _ in 0..rounds {
        kernels.all_reduce_in_place(&comm, &mut x, Sum)?;
        kernels.all_reduce_in_place(&comm.on(&side), &mut z, Sum)?;
        graph.launch(&comm)?;
        kernels.always(Way::OneShotInBlocks).all_reduce_in_place(&comm.on(&side), &mut x, Max)?;
        let [first, rest, other] = &mut expected;
        *first = first.wrapping_mul(n).wrapping_mul(n);
        (*rest, *other) = (rest.wrapping_mul(n), other.wrapping_mul(n));
    }
    let [first, rest, other] = expected;
    assert_eq!(x.to_vec()?, [other; 1000]);
    assert_eq!(z.to_vec()?, [other; 300]);
    let w = w.to_vec()?;
    assert_eq!((&w[..7], &w[7..]), (&[first; 7][..], &[rest; 993][..]));
    drop(graph);
    comm.finish()
}

/// Many small buffers in one launch: of lengths that are not whole lines, and more of them than a
/// launch takes.
pub(crate) fn many_at_once<W: World>(comm: Communicator<W>) -> Result<()> {
    let kernels = comm.kernels()?;
    let (rank, n) = (comm.rank().index() as u64, comm.size() as u64);
    for many in [1, 64, 200] {
        let one = |i: usize| comm.device().from_slice(&vec![rank + i as u64; 1 + i * 5 % 128]);
        let mut all = (0..many).map(one).collect::<Result<Vec<_>>>()?;
        kernels.all_reduce_each_in_place(&comm, &mut all, Sum)?;
        kernels.all_reduce_each_in_place(&comm, &mut all, Max)?;
        for (i, one) in all.iter().enumerate() {
            let sum = n * (n - 1) / 2 + n * i as u64;
            assert_eq!(one.to_vec()?, vec![sum; one.len()], "buffer {i} of {many}");
        }
    }
    comm.finish()
}

/// Exchanges along a line with open ends, all-to-alls, and all_reduces in between. One rank is late
/// now and then: the others must not proceed past data that it has not read.
pub(crate) fn messages<W: World>(comm: Communicator<W>, rounds: usize) -> Result<()> {
    let kernels = comm.kernels()?;
    let (rank, n) = (comm.rank().index(), comm.size());
    let before = (rank > 0).then(|| comm.ring(-1));
    let after = (rank + 1 < n).then(|| comm.ring(1));
    let len = 1301;
    let mut sums = comm.device().from_slice(&[1_u64; 9])?;
    for round in 0..rounds {
        let own = comm.device().from_slice(&vec![(rank * 1000 + round) as f32; len])?;
        let mut low = comm.device().from_slice(&vec![-1.0_f32; len])?;
        let mut high = comm.device().from_slice(&[-1.0_f32; 7])?;
        kernels
            .exchange(&comm)
            .leg(&own, after, &mut low, before)
            .leg(own.slice(0..7), before, &mut high, after)
            .run()?;
        if round % 5 == rank % 5 {
            low.to_vec()?;
        }
        let blocks: Vec<u8> = (0..n).flat_map(|to| [(rank * 16 + to + round) as u8; 33]).collect();
        let blocks = comm.device().from_slice(&blocks)?;
        let mut from = comm.device().zeros::<u8>(33 * n)?;
        kernels.all_to_all(&comm, &blocks, &mut from)?;
        kernels.all_reduce_in_place(&comm, &mut sums, Max)?;
        let expected = |from: Option<usize>| from.map_or(-1.0, |from| (from * 1000 + round) as f32);
        assert_eq!(low.to_vec()?, vec![expected(before.map(|rank| rank.index())); len]);
        assert_eq!(high.to_vec()?, [expected(after.map(|rank| rank.index())); 7]);
        let all: Vec<u8> = (0..n).flat_map(|from| [(from * 16 + rank + round) as u8; 33]).collect();
        assert_eq!(from.to_vec()?, all, "round {round}");
    }
    assert_eq!(sums.to_vec()?, [1; 9]);
    comm.finish()
}

/// Rows and their widths: of one block each, of several, more rows than blocks, and rows long
/// enough to travel without flags.
const ROWS: [(usize, usize); 8] =
    [(1, 1), (3, 33), (5, 1024), (40, 2048), (2, 9001), (1, 16_384), (20, 8000), (3, 70_001)];

/// all_reduce with RMSNorm, compared with its two halves.
pub(crate) fn rms_norm<W: World>(mut comm: Communicator<W>) -> Result<()> {
    let kernels = comm.kernels()?;
    for (rows, width) in ROWS {
        let x = |rank: usize| {
            let value = move |i: usize| ((i * 31 + rank * 17) % 101) as f32 / 64.0 - 0.7;
            (0..rows * width).map(value).collect::<Vec<f32>>()
        };
        let weight: Vec<f32> = (0..width).map(|i| 1.0 + (i % 5) as f32 / 8.0).collect();
        let mut sum = vec![0.0_f64; rows * width];
        for rank in 0..comm.size() {
            sum.iter_mut().zip(x(rank)).for_each(|(sum, x)| *sum += f64::from(x));
        }
        for row in sum.chunks_exact_mut(width) {
            let squares: f64 = row.iter().map(|x| x * x).sum();
            let root = (squares / width as f64 + 1e-5).sqrt();
            row.iter_mut().zip(&weight).for_each(|(x, weight)| *x = *x / root * f64::from(*weight));
        }
        let own = comm.device().from_slice(&x(comm.rank().index()))?;
        let scales = comm.device().from_slice(&weight)?;
        let mut y = comm.device().zeros::<f32>(rows * width)?;
        kernels.all_reduce_rms_norm(&comm, &own, &scales, 1e-5, &mut y)?;
        let near = |what: &str, found: &[f32]| {
            for (i, (found, expected)) in found.iter().zip(&sum).enumerate() {
                let off = (f64::from(*found) - expected).abs();
                assert!(off < 1e-4, "{what}: {rows} x {width}, {i}: {found} for {expected}");
            }
        };
        near("eager", &y.to_vec()?);
        let mut in_graph = comm.device().zeros::<f32>(rows * width)?;
        let mut graph =
            comm.capture(|g| kernels.all_reduce_rms_norm(g, &own, &scales, 1e-5, &mut in_graph))?;
        graph.launch(&comm)?;
        near("in a graph", &in_graph.to_vec()?);
        drop(graph);
        let narrow = |x: &[f32]| x.iter().map(|x| bf16::from_f32(*x)).collect::<Vec<_>>();
        let (own, scales) = (narrow(&x(comm.rank().index())), narrow(&weight));
        let own = comm.device().from_slice(&own)?;
        let scales = comm.device().from_slice(&scales)?;
        let mut y = comm.device().zeros::<bf16>(rows * width)?;
        kernels.all_reduce_rms_norm(&comm, &own, &scales, 1e-5, &mut y)?;
        for (found, expected) in y.to_vec()?.iter().zip(&sum) {
            let off = (found.to_f64() - expected).abs();
            assert!(
                off <= 0.03 + expected.abs() / 50.0,
                "{rows} x {width}: {found} for {expected}"
            );
        }
    }
    comm.finish()
}

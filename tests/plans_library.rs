//! Every plan of the library, for every number of ranks that it claims up to eight: several runs in a
//! row with nothing between them, early and shaken, beside plain Rust that computes the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use typed_nccl::plan::{Slices, Swapped, Timing};
use typed_nccl::plans::{
    barrier, expert_exchange, grad_sync, halo_1d, halo_2d, hierarchical_all_reduce, one_f1b,
    pipeline_forward, ring_exchange, tree_broadcast,
};
use typed_nccl::{
    Buffer, Communicator, Device, Element, Error, Host, Result, Slice, SliceMut, Stream, World,
    bf16, spmd,
};

/// How often a plan runs, with nothing between the runs.
const RUNS: usize = 4;

/// Each timing in which a plan is tried; every rank shakes in its own way.
fn timings<W: World>(comm: &Communicator<W>) -> [Timing; 4] {
    let rank = comm.rank().index() as u64;
    let shaken = |seed: u64| Timing::Shaken(seed * 1000 + rank);
    [Timing::Early, shaken(1), shaken(2), shaken(3)]
}

/// The same on each of `n` host ranks.
macro_rules! ranks {
    ($n:expr, |$comm:ident| $body:block) => {
        spmd::<Host>($n, |place| {
            #[allow(unused_mut, reason = "not every plan needs it")]
            let mut $comm = place.init()?;
            $body
            $comm.finish()
        })
        .expect("the ranks run, and verify their own numbers")
    };
}

/// As many buffers, each with its own values.
fn buffers<D: Device, T: Element>(
    device: &D,
    values: impl IntoIterator<Item = Vec<T>>,
) -> Result<Vec<Buffer<T, D>>> {
    values.into_iter().map(|values| device.from_slice(&values)).collect()
}

fn shifted<T: Element>(n: usize, value: fn(usize) -> T) {
    ranks!(n, |comm| {
        const LEN: usize = 5;
        let own = |rank: usize, run: usize| -> Vec<T> {
            (0..LEN).map(|at| value((7 * rank + 3 * run + at) % 100)).collect()
        };
        let rank = comm.rank().index();
        let mut ring = ring_exchange::bind::<T, _>(&mut comm, ring_exchange::Params { len: LEN })?;
        for timing in timings(&comm) {
            ring.as_mut().set_timing(timing);
            let sent = buffers(comm.device(), (0..RUNS).map(|run| own(rank, run)))?;
            let mut got = buffers(comm.device(), (0..RUNS).map(|_| own(rank, 99)))?;
            for (a, b) in sent.iter().zip(&mut got) {
                ring.run(&comm, ring_exchange::Buffers { a, b })?;
            }
            for (run, b) in got.iter().enumerate() {
                assert_eq!(b.to_vec()?, own((rank + n - 1) % n, run), "{timing:?}, run {run}");
            }
        }
    });
}

#[test]
fn a_ring() {
    for n in 1..=8 {
        shifted::<i32>(n, |at| at as i32);
        shifted::<bf16>(n, |at| bf16::from_f32(at as f32));
    }
}

/// What an element becomes: not the same from the left and from the right.
fn smooth(near: [u32; 3]) -> u32 {
    near[0].wrapping_add(near[1].wrapping_mul(2)).wrapping_add(near[2].wrapping_mul(3))
}

/// `u` has `h` elements more at each end than `next`; the farthest of them are neighbours.
fn line(u: &[u32], next: &mut [u32], h: usize) {
    for (at, next) in next.iter_mut().enumerate() {
        *next = smooth([u[at], u[at + h], u[at + 2 * h]]);
    }
}

struct Line {
    h: usize,
}

impl<Tag> halo_1d::Steps<u32, Host<Tag>> for Line {
    fn interior(
        &mut self,
        u: Slice<'_, u32, Host<Tag>>,
        mut next: SliceMut<'_, u32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        let h = self.h;
        stream.launch((&u, &mut next), move |(u, next), ()| line(u, next, h))
    }

    fn edges(
        &mut self,
        u: Slice<'_, u32, Host<Tag>>,
        mut low: SliceMut<'_, u32, Host<Tag>>,
        mut high: SliceMut<'_, u32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        let h = self.h;
        stream.launch((&u, &mut low, &mut high), move |(u, low, high), ()| {
            line(&u[..3 * h], low, h);
            line(&u[u.len() - 3 * h..], high, h);
        })
    }
}

#[test]
fn a_halo_on_a_line() {
    for n in 1..=8 {
        for (m, h) in [(8, 1), (13, 2)] {
            ranks!(n, |comm| {
                let (own, rank) = (m - 2 * h, comm.rank().index());
                let mut halo = halo_1d::bind::<u32, _>(&mut comm, halo_1d::Params { m, h })?;
                for timing in timings(&comm) {
                    halo.as_mut().set_timing(timing);
                    let mut whole: Vec<u32> = (0..(n * own) as u32).map(|at| at * at + 1).collect();
                    let (mut now, next) = (comm.window(m)?, comm.window(m)?);
                    now.slice_mut(h..m - h).copy_from(&whole[rank * own..(rank + 1) * own])?;
                    let mut u = Swapped::new(now, next);
                    comm.barrier()?;
                    for _ in 0..RUNS {
                        halo.run(&comm, halo_1d::Buffers { u: &mut u }, &mut Line { h })?;
                        let len = whole.len();
                        let near = |at: usize| [(at + len - h) % len, at, (at + h) % len];
                        whole = (0..len).map(|at| smooth(near(at).map(|at| whole[at]))).collect();
                    }
                    let found = u.current().slice(h..m - h).to_vec()?;
                    assert_eq!(found, whole[rank * own..(rank + 1) * own], "{timing:?}");
                    let (now, next) = u.into_parts();
                    comm.close(now)?;
                    comm.close(next)?;
                }
            });
        }
    }
}

/// A tile of `H` by `W`, and what each point becomes.
const H: usize = 3;
const W: usize = 4;
const EDGE: usize = 4;

fn point(near: [u32; 5]) -> u32 {
    let weights = [3, 5, 7, 11, 13];
    near.iter().zip(weights).fold(1, |sum: u32, (x, by)| sum.wrapping_add(x.wrapping_mul(by)))
}

/// Keeps the tile as it was until the halo is there.
struct Tile;

impl<Tag> halo_2d::Steps<u32, Host<Tag>> for Tile {
    fn pack(
        &mut self,
        u: Slice<'_, u32, Host<Tag>>,
        mut edges: SliceMut<'_, u32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        stream.launch((&u, &mut edges), |(u, edges), ()| {
            let (above, below) = (0..W).map(|x| (u[x], u[(H - 1) * W + x])).unzip();
            let (before, behind) = (0..H).map(|y| (u[y * W], u[y * W + W - 1])).unzip();
            let all: [Vec<u32>; 4] = [above, below, before, behind];
            for (edge, values) in edges.chunks_mut(EDGE).zip(all) {
                edge[..values.len()].copy_from_slice(&values);
            }
        })
    }

    /// Leaves a mark behind the tile: that it has run.
    fn interior(
        &mut self,
        mut u: SliceMut<'_, u32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        stream.launch(&mut u, |u, ()| u[H * W] += 1)
    }

    fn finish(
        &mut self,
        mut u: SliceMut<'_, u32, Host<Tag>>,
        from_above: Slice<'_, u32, Host<Tag>>,
        from_below: Slice<'_, u32, Host<Tag>>,
        from_before: Slice<'_, u32, Host<Tag>>,
        from_behind: Slice<'_, u32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        let halo = (&mut u, &from_above, &from_below, &from_before, &from_behind);
        stream.launch(halo, |(u, above, below, before, behind), ()| {
            let old = u.to_vec();
            for (y, x) in (0..H).flat_map(|y| (0..W).map(move |x| (y, x))) {
                let at = |y: usize, x: usize| old[y * W + x];
                u[y * W + x] = point([
                    at(y, x),
                    if y == 0 { above[x] } else { at(y - 1, x) },
                    if y + 1 == H { below[x] } else { at(y + 1, x) },
                    if x == 0 { before[y] } else { at(y, x - 1) },
                    if x + 1 == W { behind[y] } else { at(y, x + 1) },
                ]);
            }
        })
    }
}

#[test]
fn a_halo_on_a_torus() {
    let grids = [(1, 2), (2, 1), (1, 3), (2, 2), (5, 1), (2, 3), (3, 2), (1, 7), (2, 4), (4, 2)];
    for (rows, cols) in grids {
        ranks!(rows * cols, |comm| {
            let (high, wide) = (rows * H, cols * W);
            let (top, left) = (comm.rank().index() / cols * H, comm.rank().index() % cols * W);
            let tile = |whole: &[u32], mark: u32| -> Vec<u32> {
                let rows = (top..top + H).map(|y| &whole[y * wide + left..][..W]);
                rows.flatten().copied().chain([mark]).collect()
            };
            let params = halo_2d::Params { rows, cols, m: H * W + 1, h: EDGE };
            let mut halo = halo_2d::bind::<u32, _>(&mut comm, params)?;
            for timing in timings(&comm) {
                halo.as_mut().set_timing(timing);
                let mut whole: Vec<u32> = (0..(high * wide) as u32).map(|at| at * at).collect();
                let mut u = comm.device().from_slice(&tile(&whole, 0))?;
                for _ in 0..RUNS {
                    halo.run(&comm, halo_2d::Buffers { u: &mut u }, &mut Tile)?;
                    let at = |y: usize, x: usize| whole[y % high * wide + x % wide];
                    let near = |y: usize, x: usize| {
                        [
                            at(y, x),
                            at(y + high - 1, x),
                            at(y + 1, x),
                            at(y, x + wide - 1),
                            at(y, x + 1),
                        ]
                    };
                    whole = (0..high * wide).map(|at| point(near(at / wide, at % wide))).collect();
                }
                assert_eq!(u.to_vec()?, tile(&whole, RUNS as u32), "{timing:?}");
            }
        });
    }
}

fn summed<T: typed_nccl::Numeric + PartialEq>(nodes: usize, local: usize, value: fn(usize) -> T) {
    let n = nodes * local;
    ranks!(n, |comm| {
        let len = 3 * local;
        let own = |rank: usize, run: usize, at: usize| rank + 2 * run + at;
        let rank = comm.rank().index();
        let params = hierarchical_all_reduce::Params { nodes, local, len };
        let mut reduce = hierarchical_all_reduce::bind::<T, _>(&mut comm, params)?;
        for timing in timings(&comm) {
            reduce.as_mut().set_timing(timing);
            let values = |run| (0..len).map(|at| value(own(rank, run, at))).collect();
            let mut all = buffers(comm.device(), (0..RUNS).map(values))?;
            for x in &mut all {
                reduce.run(&comm, hierarchical_all_reduce::Buffers { x })?;
            }
            for (run, x) in all.iter().enumerate() {
                let sum = |at| value((0..n).map(|rank| own(rank, run, at)).sum());
                assert_eq!(x.to_vec()?, (0..len).map(sum).collect::<Vec<T>>(), "{timing:?}");
            }
        }
    });
}

#[test]
fn within_nodes_and_between_them() {
    let meshes =
        [(1, 2), (2, 1), (3, 1), (1, 3), (2, 2), (1, 5), (2, 3), (3, 2), (7, 1), (2, 4), (4, 2)];
    for (nodes, local) in meshes {
        summed::<f64>(nodes, local, |x| x as f64);
        summed::<u32>(nodes, local, |x| x as u32);
    }
}

/// Makes gradients, and adds their averages up.
struct Model<'a, Tag> {
    rank: usize,
    run: usize,
    sum: &'a mut Buffer<f64, Host<Tag>>,
    backward: Vec<usize>,
}

impl<Tag> grad_sync::Steps<f32, Host<Tag>> for Model<'_, Tag> {
    fn backward(
        &mut self,
        i: usize,
        mut g: SliceMut<'_, f32, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        self.backward.push(i);
        let first = self.rank * (i + 1) + self.run;
        stream.launch(&mut g, move |g, ()| {
            for (at, g) in g.iter_mut().enumerate() {
                *g = (first + at) as f32;
            }
        })
    }

    fn apply(&mut self, g: Slices<'_, f32, Host<Tag>>, stream: &Stream<Host<Tag>>) -> Result<()> {
        for (i, bucket) in g.iter().enumerate() {
            let by = (i + 1) as f64;
            stream.launch((&bucket, &mut *self.sum), move |(bucket, sum), ()| {
                sum[0] += by * bucket.iter().map(|g| f64::from(*g)).sum::<f64>();
            })?;
        }
        Ok(())
    }
}

#[test]
fn gradients_in_buckets() {
    let sizes = [5, 1, 8];
    for n in 1..=8 {
        ranks!(n, |comm| {
            let rank = comm.rank().index();
            let params = grad_sync::Params { k: 3, sizes: &sizes };
            let mut sync = grad_sync::bind::<f32, _>(&mut comm, params)?;
            for timing in timings(&comm) {
                sync.as_mut().set_timing(timing);
                let mut g = buffers(comm.device(), sizes.map(|len| vec![0.0; len]))?;
                let mut sum = comm.device().zeros(1)?;
                for run in 0..RUNS {
                    let mut model = Model { rank, run, sum: &mut sum, backward: Vec::new() };
                    sync.run(&comm, grad_sync::Buffers { g: &mut g }, &mut model)?;
                    assert_eq!(model.backward, [2, 1, 0]);
                }
                let mut expected = 0.0;
                for (run, i) in (0..RUNS).flat_map(|run| (0..3).map(move |i| (run, i))) {
                    let mean = ((n - 1) * (i + 1)) as f64 / 2.0 + run as f64;
                    let all: f64 = (0..sizes[i]).map(|at| mean + at as f64).sum();
                    expected += (i + 1) as f64 * all;
                }
                let found = sum.to_vec()?[0];
                assert!((found - expected).abs() < 1e-3, "{found}, not {expected}; {timing:?}");
            }
        });
    }
}

/// A stage of a pipeline. What it computes shows who did, and in which order.
struct Stage {
    rank: u64,
}

fn forward(x: u64, rank: u64, i: u64) -> u64 {
    (3 * x + rank + i) % 1009
}

fn backward(act: u64, out: u64, grad: u64) -> u64 {
    (2 * grad + act + 5 * out) % 1009
}

impl Stage {
    fn on<Tag>(
        &self,
        i: usize,
        from: Slice<'_, u64, Host<Tag>>,
        mut into: SliceMut<'_, u64, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        let rank = self.rank;
        stream.launch((&from, &mut into), move |(from, into), ()| {
            for (into, from) in into.iter_mut().zip(from) {
                *into = forward(*from, rank, i as u64);
            }
        })
    }
}

impl<Tag> pipeline_forward::Steps<u64, Host<Tag>> for Stage {
    fn fwd(
        &mut self,
        i: usize,
        inp: Slice<'_, u64, Host<Tag>>,
        out: SliceMut<'_, u64, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        self.on(i, inp, out, stream)
    }
}

impl<Tag> one_f1b::Steps<u64, Host<Tag>> for Stage {
    fn fwd(
        &mut self,
        i: usize,
        act: Slice<'_, u64, Host<Tag>>,
        out: SliceMut<'_, u64, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        self.on(i, act, out, stream)
    }

    fn bwd(
        &mut self,
        _: usize,
        act: Slice<'_, u64, Host<Tag>>,
        out: Slice<'_, u64, Host<Tag>>,
        grad: Slice<'_, u64, Host<Tag>>,
        mut gin: SliceMut<'_, u64, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        stream.launch((&act, &out, &grad, &mut gin), |(act, out, grad, gin), ()| {
            for (at, gin) in gin.iter_mut().enumerate() {
                *gin = backward(act[at], out[at], grad[at]);
            }
        })
    }
}

/// What goes into the pipeline: element `at` of micro-batch `i` in a run.
fn fed(run: usize, i: usize, at: usize) -> u64 {
    (17 * run + 5 * i + at) as u64
}

/// Stage by stage, what comes out of it.
fn through(n: usize, run: usize, i: usize, at: usize) -> Vec<u64> {
    let stages = (0..n as u64).scan(fed(run, i, at), |x, rank| {
        *x = forward(*x, rank, i as u64);
        Some(*x)
    });
    stages.collect()
}

const K: usize = 2;

/// Micro-batches of `K` elements each.
fn batches(mb: usize, value: impl Fn(usize, usize) -> u64) -> Vec<Vec<u64>> {
    (0..mb).map(|i| (0..K).map(|at| value(i, at)).collect()).collect()
}

fn told<D: Device>(batches: &[Buffer<u64, D>]) -> Result<Vec<Vec<u64>>> {
    batches.iter().map(Buffer::to_vec).collect()
}

#[test]
fn a_pipeline_forward() {
    for n in 2..=8 {
        for mb in [1, 3] {
            ranks!(n, |comm| {
                let (rank, device) = (comm.rank().index(), comm.device().clone());
                let params = pipeline_forward::Params { mb, k: K };
                let mut pipe = pipeline_forward::bind::<u64, _>(&mut comm, params)?;
                for timing in timings(&comm) {
                    pipe.as_mut().set_timing(timing);
                    let mut outs = Vec::new();
                    for run in 0..RUNS {
                        let fed = |i, at| if rank == 0 { fed(run, i, at) } else { 7 };
                        let mut inp = buffers(&device, batches(mb, fed))?;
                        let mut out = buffers(&device, batches(mb, |_, _| 7))?;
                        let given = pipeline_forward::Buffers { inp: &mut inp, out: &mut out };
                        pipe.run(&comm, given, &mut Stage { rank: rank as u64 })?;
                        outs.push(out);
                    }
                    for (run, out) in outs.iter().enumerate() {
                        let expected = batches(mb, |i, at| through(n, run, i, at)[rank]);
                        assert_eq!(told(out)?, expected, "{timing:?}, run {run}");
                    }
                }
            });
        }
    }
}

#[test]
fn one_forward_one_backward() {
    for n in 2..=8 {
        for mb in [n, 8, 12] {
            ranks!(n, |comm| {
                let (rank, device) = (comm.rank().index(), comm.device().clone());
                let mut pipe = one_f1b::bind::<u64, _>(&mut comm, one_f1b::Params { mb, k: K })?;
                for timing in timings(&comm) {
                    pipe.as_mut().set_timing(timing);
                    let mut results = Vec::new();
                    for run in 0..2 {
                        let fed = |i, at| if rank == 0 { fed(run, i, at) } else { 7 };
                        let label = |i, _| if rank + 1 == n { (100 * run + i) as u64 } else { 7 };
                        let mut act = buffers(&device, batches(mb, fed))?;
                        let mut grad = buffers(&device, batches(mb, label))?;
                        let mut out = buffers(&device, batches(mb, |_, _| 7))?;
                        let mut gin = buffers(&device, batches(mb, |_, _| 7))?;
                        let given = one_f1b::Buffers {
                            act: &mut act,
                            out: &mut out,
                            grad: &mut grad,
                            gin: &mut gin,
                        };
                        pipe.run(&comm, given, &mut Stage { rank: rank as u64 })?;
                        results.push((out, gin));
                    }
                    for (run, (out, gin)) in results.iter().enumerate() {
                        let outs = batches(mb, |i, at| through(n, run, i, at)[rank]);
                        let gins = batches(mb, |i, at| {
                            let out = through(n, run, i, at);
                            let label = (100 * run + i) as u64;
                            (rank..n).rev().fold(label, |grad, rank| {
                                let act = if rank == 0 { fed(run, i, at) } else { out[rank - 1] };
                                backward(act, out[rank], grad)
                            })
                        });
                        assert_eq!((told(out)?, told(gin)?), (outs, gins), "{timing:?}, run {run}");
                    }
                }
            });
        }
    }
}

/// Answers a token with itself, its sender, its place and the expert.
struct Expert {
    number: u64,
    capacity: usize,
}

fn answer(token: u64, expert: u64, sender: usize, place: usize) -> u64 {
    token * 1000 + expert * 100 + (sender * 10 + place) as u64
}

impl<Tag> expert_exchange::Steps<u64, Host<Tag>> for Expert {
    fn experts(
        &mut self,
        inbox: Slice<'_, u64, Host<Tag>>,
        mut outbox: SliceMut<'_, u64, Host<Tag>>,
        stream: &Stream<Host<Tag>>,
    ) -> Result<()> {
        let &mut Self { number, capacity } = self;
        stream.launch((&inbox, &mut outbox), move |(inbox, outbox), ()| {
            for (at, (out, token)) in outbox.iter_mut().zip(inbox).enumerate() {
                *out = answer(*token, number, at / capacity, at % capacity);
            }
        })
    }
}

#[test]
fn tokens_to_experts_and_back() {
    for n in 1..=8 {
        let capacity = 3;
        ranks!(n, |comm| {
            let rank = comm.rank().index();
            let params = expert_exchange::Params { capacity };
            let mut exchange = expert_exchange::bind::<u64, _>(&mut comm, params)?;
            for timing in timings(&comm) {
                exchange.as_mut().set_timing(timing);
                let token = |run: usize, at: usize| (rank * 50 + run * 7 + at) as u64;
                let tokens = |run| (0..n * capacity).map(|at| token(run, at)).collect();
                let sent = buffers(comm.device(), (0..RUNS).map(tokens))?;
                let mut got = buffers(comm.device(), (0..RUNS).map(|_| vec![0; n * capacity]))?;
                for (tokens, result) in sent.iter().zip(&mut got) {
                    let mut expert = Expert { number: rank as u64, capacity };
                    let given = expert_exchange::Buffers { tokens, result };
                    exchange.run(&comm, given, &mut expert)?;
                }
                for (run, result) in got.iter().enumerate() {
                    let expected = (0..n * capacity).map(|at| {
                        answer(token(run, at), (at / capacity) as u64, rank, at % capacity)
                    });
                    assert_eq!(result.to_vec()?, expected.collect::<Vec<_>>(), "{timing:?}");
                }
            }
        });
    }
}

fn spread<T: Element>(n: usize, value: fn(usize) -> T) {
    ranks!(n, |comm| {
        const LEN: usize = 6;
        let own = |rank: usize, run: usize| -> Vec<T> {
            (0..LEN).map(|at| value(20 * rank + run + at)).collect()
        };
        let params = tree_broadcast::Params { len: LEN };
        let mut broadcast = tree_broadcast::bind::<T, _>(&mut comm, params)?;
        for timing in timings(&comm) {
            broadcast.as_mut().set_timing(timing);
            let rank = comm.rank().index();
            let mut all = buffers(comm.device(), (0..RUNS).map(|run| own(rank, run)))?;
            for x in &mut all {
                broadcast.run(&comm, tree_broadcast::Buffers { x })?;
            }
            for (run, x) in all.iter().enumerate() {
                assert_eq!(x.to_vec()?, own(0, run), "{timing:?}, run {run}");
            }
        }
    });
}

#[test]
fn along_a_tree() {
    for n in (1..=8).chain([11, 16]) {
        spread::<u8>(n, |at| (at % 251) as u8);
        spread::<f64>(n, |at| at as f64);
    }
}

/// Each rank counts itself in before the barrier; behind it nobody may be missing.
#[test]
fn all_streams_meet() {
    for n in (1..=8).chain([13, 16]) {
        let arrived = Arc::new(AtomicUsize::new(0));
        ranks!(n, |comm| {
            let mut here = barrier::bind(&mut comm)?;
            // The barrier's own window brings the signals that it needs.
            comm.signal(comm.ring(1))?;
            comm.wait_signal(comm.ring(-1))?;
            let slow = comm.rank().index() % 3 == 1;
            let mut before = 0;
            for timing in timings(&comm) {
                here.as_mut().set_timing(timing);
                for _ in 0..RUNS {
                    before += n;
                    let counter = arrived.clone();
                    comm.stream().launch((), move |(), ()| {
                        if slow {
                            std::thread::sleep(Duration::from_millis(1));
                        }
                        counter.fetch_add(1, Ordering::SeqCst);
                    })?;
                    here.run(&comm)?;
                    let counter = arrived.clone();
                    comm.stream().launch((), move |(), ()| {
                        let found = counter.load(Ordering::SeqCst);
                        assert!(found >= before, "{found} of {before} have come");
                    })?;
                }
            }
            comm.sync(comm.stream())?;
        });
    }
}

#[test]
fn sizes_that_are_not_claimed_are_refused_by_name() {
    let told = |error: Option<Error>| error.map(|error| error.to_string()).unwrap_or_default();
    ranks!(4, |comm| {
        let params = one_f1b::Params { mb: 3, k: 1 };
        let told_few = told(one_f1b::bind::<f32, _>(&mut comm, params).err());
        assert!(told_few.contains("`mb >= n` does not hold"), "{told_few}");
        let params = hierarchical_all_reduce::Params { nodes: 2, local: 2, len: 3 };
        let told_odd = told(hierarchical_all_reduce::bind::<f32, _>(&mut comm, params).err());
        assert!(told_odd.contains("len % local == 0"), "{told_odd}");
    });
    ranks!(17, |comm| {
        let told = told(barrier::bind(&mut comm).err());
        assert!(told.contains("`n` is 17 ranks, and the plan is for 1 to 16"), "{told}");
    });
}

//! The library's plans on GPUs, several runs in a row without anything in between, compared with
//! plain Rust. Their steps are kernels.

use typed_nccl::plan::Swapped;
use typed_nccl::plans::{
    barrier, expert_exchange, halo_1d, halo_2d, hierarchical_all_reduce, one_f1b, pipeline_forward,
    ring_exchange, tree_broadcast,
};
use typed_nccl::{
    Buffer, CommConfig, Communicator, Cuda, Device, Place, Result, Slice, SliceMut, Stream,
};

use crate::common::{ranks, seconds};
use crate::kernel::{combine, ready};
use crate::windows::one_sided;

/// How often a plan runs, without anything between the runs.
const RUNS: usize = 10;

type Memory<'a, Tag> = Slice<'a, u32, Cuda<Tag>>;
type MemoryMut<'a, Tag> = SliceMut<'a, u32, Cuda<Tag>>;

/// Connects with as many signals as the plans use.
fn connect<Tag>(place: Place<Cuda<Tag>>) -> Result<Communicator<Cuda<Tag>>> {
    let (seat, device) = place.into_parts();
    ready(&device)?;
    let signals = if one_sided()? { 4 } else { 1 };
    let config = CommConfig::builder().deadline(seconds(60)).signals(signals).build();
    Communicator::builder().seat(seat).device(device).config(config).build().connect()
}

fn buffers<D: Device>(
    device: &D,
    values: impl IntoIterator<Item = Vec<u32>>,
) -> Result<Vec<Buffer<u32, D>>> {
    values.into_iter().map(|values| device.from_slice(&values)).collect()
}

/// `len` values that encode rank, run and place.
fn own(rank: usize, run: usize, len: usize) -> Vec<u32> {
    (0..len).map(|at| (1_000_000 * rank + 10_000 * run + at) as u32).collect()
}

/// A ring, a tree, nodes, and a barrier: plans without steps of their own.
pub(crate) fn without_steps() -> Result<()> {
    let n = ranks()?;
    let signals = one_sided()?;
    Cuda::spmd(n, |place| {
        let mut comm = connect(place)?;
        let (rank, len) = (comm.rank().index(), 10 * n);
        let fresh = |comm: &Communicator<_>| {
            buffers(comm.device(), (0..RUNS).map(|run| own(rank, run, len)))
        };

        let params = ring_exchange::Params { len };
        let mut ring = ring_exchange::bind::<u32, _>(&mut comm, params)?;
        let (sent, mut got) = (fresh(&comm)?, fresh(&comm)?);
        for (a, b) in sent.iter().zip(&mut got) {
            ring.run(&comm, ring_exchange::Buffers { a, b })?;
        }
        for (run, b) in got.iter().enumerate() {
            assert_eq!(b.to_vec()?, own((rank + n - 1) % n, run, len), "ring, run {run}");
        }

        let params = tree_broadcast::Params { len };
        let mut tree = tree_broadcast::bind::<u32, _>(&mut comm, params)?;
        let mut all = fresh(&comm)?;
        for x in &mut all {
            tree.run(&comm, tree_broadcast::Buffers { x })?;
        }
        for (run, x) in all.iter().enumerate() {
            assert_eq!(x.to_vec()?, own(0, run, len), "tree, run {run}");
        }

        for (nodes, local) in [(1, n), (n, 1), (2, n / 2)] {
            if nodes * local != n {
                continue;
            }
            let params = hierarchical_all_reduce::Params { nodes, local, len };
            let mut reduce = hierarchical_all_reduce::bind::<u32, _>(&mut comm, params)?;
            let mut all = fresh(&comm)?;
            for x in &mut all {
                reduce.run(&comm, hierarchical_all_reduce::Buffers { x })?;
            }
            for (run, x) in all.iter().enumerate() {
                let sum = |at: usize| (0..n).map(|rank| own(rank, run, len)[at]).sum();
                assert_eq!(x.to_vec()?, (0..len).map(sum).collect::<Vec<u32>>(), "run {run}");
            }
        }

        if signals {
            let mut here = barrier::bind(&mut comm)?;
            for _ in 0..RUNS {
                here.run(&comm)?;
            }
            comm.stream().sync()?;
        }
        comm.finish()
    })
    .map(drop)
}

/// A stage of a pipeline. Its results show which stages computed, and in which order.
struct Stage {
    rank: u32,
}

fn forward(x: u32, rank: u32, i: usize) -> u32 {
    x.wrapping_mul(3).wrapping_add(10 * rank + i as u32)
}

fn backward(act: u32, out: u32, grad: u32) -> u32 {
    act.wrapping_add(out.wrapping_mul(5)).wrapping_add(grad.wrapping_mul(2))
}

impl Stage {
    fn on<Tag>(
        &self,
        i: usize,
        from: &Memory<'_, Tag>,
        into: &mut MemoryMut<'_, Tag>,
        stream: &Stream<Cuda<Tag>>,
    ) -> Result<()> {
        let plus = 10 * self.rank + i as u32;
        stream.launch((from, into), move |(from, mut into), stream| {
            combine(&mut into, [(Some(&from), 3), (None, 0), (None, 0)], plus, stream);
        })
    }
}

impl<Tag> pipeline_forward::Steps<u32, Cuda<Tag>> for Stage {
    fn fwd(
        &mut self,
        i: usize,
        inp: Memory<'_, Tag>,
        mut out: MemoryMut<'_, Tag>,
        stream: &Stream<Cuda<Tag>>,
    ) -> Result<()> {
        self.on(i, &inp, &mut out, stream)
    }
}

impl<Tag> one_f1b::Steps<u32, Cuda<Tag>> for Stage {
    fn fwd(
        &mut self,
        i: usize,
        act: Memory<'_, Tag>,
        mut out: MemoryMut<'_, Tag>,
        stream: &Stream<Cuda<Tag>>,
    ) -> Result<()> {
        self.on(i, &act, &mut out, stream)
    }

    fn bwd(
        &mut self,
        _: usize,
        act: Memory<'_, Tag>,
        out: Memory<'_, Tag>,
        grad: Memory<'_, Tag>,
        mut gin: MemoryMut<'_, Tag>,
        stream: &Stream<Cuda<Tag>>,
    ) -> Result<()> {
        stream.launch((&act, &out, &grad, &mut gin), |(act, out, grad, mut gin), stream| {
            combine(&mut gin, [(Some(&act), 1), (Some(&out), 5), (Some(&grad), 2)], 0, stream);
        })
    }
}

const K: usize = 1000;

/// Micro-batches of `K` elements each.
fn batches(mb: usize, value: impl Fn(usize, usize) -> u32) -> Vec<Vec<u32>> {
    (0..mb).map(|i| (0..K).map(|at| value(i, at)).collect()).collect()
}

fn told<D: Device>(batches: &[Buffer<u32, D>]) -> Result<Vec<Vec<u32>>> {
    batches.iter().map(Buffer::to_vec).collect()
}

/// The input of a pipeline: element `at` of micro-batch `i` in a run.
fn fed(run: usize, i: usize, at: usize) -> u32 {
    (1_000_000 * run + 10_000 * i + at) as u32
}

/// The output, stage by stage.
fn through(n: usize, run: usize, i: usize, at: usize) -> Vec<u32> {
    let stages = (0..n as u32).scan(fed(run, i, at), |x, rank| {
        *x = forward(*x, rank, i);
        Some(*x)
    });
    stages.collect()
}

pub(crate) fn pipelines() -> Result<()> {
    let n = ranks()?;
    if n < 2 {
        println!("SKIPPED: a pipeline has two stages");
        return Ok(());
    }
    Cuda::spmd(n, |place| {
        let mut comm = connect(place)?;
        let (rank, device) = (comm.rank().index(), comm.device().clone());
        let mut stage = Stage { rank: rank as u32 };
        let mb = 8;

        let params = pipeline_forward::Params { mb, k: K };
        let mut pipe = pipeline_forward::bind::<u32, _>(&mut comm, params)?;
        let mut outs = Vec::new();
        for run in 0..RUNS {
            let fed = |i, at| if rank == 0 { fed(run, i, at) } else { 7 };
            let mut inp = buffers(&device, batches(mb, fed))?;
            let mut out = buffers(&device, batches(mb, |_, _| 7))?;
            let given = pipeline_forward::Buffers { inp: &mut inp, out: &mut out };
            pipe.run(&comm, given, &mut stage)?;
            outs.push(out);
        }
        for (run, out) in outs.iter().enumerate() {
            let expected = batches(mb, |i, at| through(n, run, i, at)[rank]);
            assert!(told(out)? == expected, "forward, run {run}");
        }

        let mut pipe = one_f1b::bind::<u32, _>(&mut comm, one_f1b::Params { mb, k: K })?;
        let mut results = Vec::new();
        for run in 0..RUNS {
            let fed = |i, at| if rank == 0 { fed(run, i, at) } else { 7 };
            let label = |i, _| if rank + 1 == n { (100 * run + i) as u32 } else { 7 };
            let mut act = buffers(&device, batches(mb, fed))?;
            let mut grad = buffers(&device, batches(mb, label))?;
            let mut out = buffers(&device, batches(mb, |_, _| 7))?;
            let mut gin = buffers(&device, batches(mb, |_, _| 7))?;
            let given =
                one_f1b::Buffers { act: &mut act, out: &mut out, grad: &mut grad, gin: &mut gin };
            pipe.run(&comm, given, &mut stage)?;
            results.push((out, gin));
        }
        for (run, (out, gin)) in results.iter().enumerate() {
            let outs = batches(mb, |i, at| through(n, run, i, at)[rank]);
            let gins = batches(mb, |i, at| {
                let out = through(n, run, i, at);
                let label = (100 * run + i) as u32;
                (rank..n).rev().fold(label, |grad, rank| {
                    let act = if rank == 0 { fed(run, i, at) } else { out[rank - 1] };
                    backward(act, out[rank], grad)
                })
            });
            assert!(told(out)? == outs && told(gin)? == gins, "1F1B, run {run}");
        }
        comm.finish()
    })
    .map(drop)
}

/// Answers with the token and the expert's number.
struct Expert {
    number: u32,
}

impl<Tag> expert_exchange::Steps<u32, Cuda<Tag>> for Expert {
    fn experts(
        &mut self,
        inbox: Memory<'_, Tag>,
        mut outbox: MemoryMut<'_, Tag>,
        stream: &Stream<Cuda<Tag>>,
    ) -> Result<()> {
        let number = self.number;
        stream.launch((&inbox, &mut outbox), move |(inbox, mut outbox), stream| {
            combine(&mut outbox, [(Some(&inbox), 2), (None, 0), (None, 0)], number, stream);
        })
    }
}

pub(crate) fn experts() -> Result<()> {
    let n = ranks()?;
    Cuda::spmd(n, |place| {
        let mut comm = connect(place)?;
        let (rank, capacity) = (comm.rank().index(), 1000);
        let len = n * capacity;
        let params = expert_exchange::Params { capacity };
        let mut exchange = expert_exchange::bind::<u32, _>(&mut comm, params)?;
        let sent = buffers(comm.device(), (0..RUNS).map(|run| own(rank, run, len)))?;
        let mut got = buffers(comm.device(), (0..RUNS).map(|_| vec![0; len]))?;
        for (tokens, result) in sent.iter().zip(&mut got) {
            let given = expert_exchange::Buffers { tokens, result };
            exchange.run(&comm, given, &mut Expert { number: rank as u32 })?;
        }
        for (run, result) in got.iter().enumerate() {
            let answer = |(at, token)| 2 * token + (at / capacity) as u32;
            let expected: Vec<u32> =
                own(rank, run, len).into_iter().enumerate().map(answer).collect();
            assert!(result.to_vec()? == expected, "run {run}");
        }
        comm.finish()
    })
    .map(drop)
}

/// The new value of an element, which depends on left and right differently.
fn smooth(near: [u32; 3]) -> u32 {
    near[0].wrapping_add(near[1].wrapping_mul(2)).wrapping_add(near[2].wrapping_mul(3))
}

struct Line {
    h: usize,
}

impl Line {
    /// `u` begins `h` elements before `next`, whose neighbours are `h` elements away.
    fn on<Tag>(
        &self,
        u: &Memory<'_, Tag>,
        next: &mut MemoryMut<'_, Tag>,
        stream: &Stream<Cuda<Tag>>,
    ) -> Result<()> {
        let (h, len) = (self.h, next.len());
        let (p, q, r) = (u.slice(0..len), u.slice(h..h + len), u.slice(2 * h..2 * h + len));
        stream.launch((&p, &q, &r, next), |(p, q, r, mut next), stream| {
            combine(&mut next, [(Some(&p), 1), (Some(&q), 2), (Some(&r), 3)], 0, stream);
        })
    }
}

impl<Tag> halo_1d::Steps<u32, Cuda<Tag>> for Line {
    fn interior(
        &mut self,
        u: Memory<'_, Tag>,
        mut next: MemoryMut<'_, Tag>,
        stream: &Stream<Cuda<Tag>>,
    ) -> Result<()> {
        self.on(&u, &mut next, stream)
    }

    fn edges(
        &mut self,
        u: Memory<'_, Tag>,
        mut low: MemoryMut<'_, Tag>,
        mut high: MemoryMut<'_, Tag>,
        stream: &Stream<Cuda<Tag>>,
    ) -> Result<()> {
        self.on(&u, &mut low, stream)?;
        self.on(&u.slice(u.len() - 3 * self.h..u.len()), &mut high, stream)
    }
}

pub(crate) fn a_line() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    let n = ranks()?;
    Cuda::spmd(n, |place| {
        let mut comm = connect(place)?;
        for (m, h) in [(16, 4), (100_000, 128)] {
            let (own, rank) = (m - 2 * h, comm.rank().index());
            let mut whole: Vec<u32> =
                (0..(n * own) as u32).map(|at| at.wrapping_mul(at).wrapping_add(1)).collect();
            let (mut now, next) = (comm.window(m)?, comm.window(m)?);
            now.slice_mut(h..m - h).copy_from(&whole[rank * own..(rank + 1) * own])?;
            let mut u = Swapped::new(now, next);
            let mut halo = halo_1d::bind::<u32, _>(&mut comm, halo_1d::Params { m, h })?;
            for _ in 0..RUNS {
                halo.run(&comm, halo_1d::Buffers { u: &mut u }, &mut Line { h })?;
                let len = whole.len();
                let near = |at: usize| [(at + len - h) % len, at, (at + h) % len];
                whole = (0..len).map(|at| smooth(near(at).map(|at| whole[at]))).collect();
            }
            let found = u.current().slice(h..m - h).to_vec()?;
            assert!(found == whole[rank * own..(rank + 1) * own], "m = {m}, h = {h}");
        }
        comm.finish()
    })
    .map(drop)
}

/// A tile that is its own four edges: each becomes itself plus three times what its neighbour sent.
struct Tile;

impl<Tag> halo_2d::Steps<u32, Cuda<Tag>> for Tile {
    fn pack(
        &mut self,
        u: Memory<'_, Tag>,
        mut edges: MemoryMut<'_, Tag>,
        stream: &Stream<Cuda<Tag>>,
    ) -> Result<()> {
        stream.launch((&u, &mut edges), |(u, mut edges), stream| {
            combine(&mut edges, [(Some(&u), 1), (None, 0), (None, 0)], 0, stream);
        })
    }

    fn interior(&mut self, mut u: MemoryMut<'_, Tag>, stream: &Stream<Cuda<Tag>>) -> Result<()> {
        stream.launch(&mut u, |mut u, stream| {
            combine(&mut u, [(None, 1), (None, 0), (None, 0)], 1, stream);
        })
    }

    fn finish(
        &mut self,
        mut u: MemoryMut<'_, Tag>,
        from_above: Memory<'_, Tag>,
        from_below: Memory<'_, Tag>,
        from_before: Memory<'_, Tag>,
        from_behind: Memory<'_, Tag>,
        stream: &Stream<Cuda<Tag>>,
    ) -> Result<()> {
        let h = u.len() / 4;
        for (at, from) in [from_above, from_below, from_before, from_behind].iter().enumerate() {
            let mut edge = u.slice_mut(at * h..(at + 1) * h);
            stream.launch((from, &mut edge), |(from, mut edge), stream| {
                combine(&mut edge, [(None, 1), (Some(&from), 3), (None, 0)], 0, stream);
            })?;
        }
        Ok(())
    }
}

pub(crate) fn a_torus() -> Result<()> {
    if !one_sided()? {
        return Ok(());
    }
    let n = ranks()?;
    for (rows, cols) in [(1, n), (n, 1), (2, n / 2)] {
        if rows * cols != n {
            continue;
        }
        let (h, m) = (1000, 4000);
        Cuda::spmd(n, |place| {
            let mut comm = connect(place)?;
            let rank = comm.rank().index();
            let mut tiles: Vec<Vec<u32>> = (0..n).map(|rank| own(rank, 0, m)).collect();
            let mut u = comm.device().from_slice(&tiles[rank])?;
            let params = halo_2d::Params { rows, cols, m, h };
            let mut halo = halo_2d::bind::<u32, _>(&mut comm, params)?;
            for _ in 0..RUNS {
                halo.run(&comm, halo_2d::Buffers { u: &mut u }, &mut Tile)?;
                let next = |rank: usize, at: usize| -> u32 {
                    let (row, col, edge) = (rank / cols, rank % cols, at / h);
                    // The edge of the neighbour on this side that faces this tile.
                    let (row, col) = match edge {
                        0 => (row + rows - 1, col),
                        1 => (row + 1, col),
                        2 => (row, col + cols - 1),
                        _ => (row, col + 1),
                    };
                    let from = &tiles[row % rows * cols + col % cols];
                    let sent = from[(edge ^ 1) * h + at % h];
                    tiles[rank][at].wrapping_add(1).wrapping_add(sent.wrapping_mul(3))
                };
                tiles = (0..n).map(|rank| (0..m).map(|at| next(rank, at)).collect()).collect();
            }
            assert!(u.to_vec()? == tiles[rank], "{rows} by {cols}");
            comm.finish()
        })?;
    }
    Ok(())
}

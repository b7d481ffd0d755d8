//! Pipelines: forward alone, and one forward, one backward.

use typed_nccl::plans::{one_f1b, pipeline_forward};
use typed_nccl::{Buffer, Device, Host, Result, Slice, SliceMut, Stream};

use super::ranks::{RUNS, buffers, ranks, timings};

/// A stage of a pipeline. Its results show which stages computed, and in which order.
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

/// The input of the pipeline: element `at` of micro-batch `i` in a run.
fn fed(run: usize, i: usize, at: usize) -> u64 {
    (17 * run + 5 * i + at) as u64
}

/// The output, stage by stage.
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
                    pipe.set_timing(timing);
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
        for mb in [n, if n < 5 { 8 } else { 12 }] {
            ranks!(n, |comm| {
                let (rank, device) = (comm.rank().index(), comm.device().clone());
                let mut pipe = one_f1b::bind::<u64, _>(&mut comm, one_f1b::Params { mb, k: K })?;
                for timing in timings(&comm) {
                    pipe.set_timing(timing);
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

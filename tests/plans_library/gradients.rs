//! Gradients in buckets, averaged while others are made.

use typed_nccl::plan::Slices;
use typed_nccl::plans::grad_sync;
use typed_nccl::{Buffer, Host, Result, SliceMut, Stream};

use super::ranks::{RUNS, buffers, ranks, timings};

/// Computes gradients, and adds up their averages.
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
                sync.set_timing(timing);
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

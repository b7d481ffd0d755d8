//! Pipelines of micro-batches.

use typed_nccl::{Host, Slice, SliceMut, Stream, spmd};

use super::harness::{own, owns, refused, same, sizes};
use super::plans::pipelines::zero_bubble;

/// Each stage passes on what it gets, and adds the gradients to its weights.
#[test]
fn zero_bubble_h1() {
    sizes(&[2, 3, 4, 7, 8, 16], |n, len| {
        let mb = if n > 8 { 16 } else { 8 };
        let k = len / mb;
        spmd::<Host>(n, |place| {
            let mut comm = place.init()?;
            let rank = comm.rank().index();
            let params = zero_bubble::Params { mb, k };
            let mut bound = zero_bubble::bind::<f32, _>(&mut comm, params)?;
            let device = comm.device().clone();
            let filled = |from: usize| -> typed_nccl::Result<Vec<_>> {
                (0..mb).map(|i| device.from_slice(&owns(from + 100 * rank, i, k))).collect()
            };
            let (mut act, mut grad) = (filled(0)?, filled(50)?);
            let (mut out, mut gin) = (filled(1)?, filled(1)?);
            let mut weights = device.zeros::<f32>(k)?;
            let mut steps = bound
                .steps()
                .fwd(|_, act, mut out, stream| copy(act, &mut out, stream))
                .bwd(|_, _, _, grad, mut gin, stream| copy(grad, &mut gin, stream))
                .weight(|_, _, grad, mut weights, stream| {
                    stream.launch((&grad, &mut weights), |(grad, weights), ()| {
                        weights.iter_mut().zip(grad).for_each(|(to, of)| *to += of);
                    })
                });
            let buffers = zero_bubble::Buffers {
                act: &mut act,
                grad: &mut grad,
                out: &mut out,
                gin: &mut gin,
                weights: &mut weights,
            };
            bound.run(&comm, buffers, &mut steps)?;
            let last = 50 + 100 * (n - 1);
            for i in 0..mb {
                same(&out[i].to_vec()?, &owns(0, i, k), "the first rank's");
                same(&gin[i].to_vec()?, &owns(last, i, k), "the last rank's");
            }
            let sum = |at| (0..mb).map(|i| own(last, i, at)).sum();
            same(&weights.to_vec()?, &(0..k).map(sum).collect::<Vec<f32>>(), "weights");
            comm.finish()
        })
        .unwrap_or_else(|error| panic!("on {n} ranks: {error}"));
    });
    let values = super::harness::f32s().number("mb", 2).number("k", 1);
    refused(zero_bubble::plan(), 1, &values, "`n` is 1 rank, and the plan is for");
    refused(zero_bubble::plan(), 3, &values, "mb >= n");
}

fn copy<Tag>(
    from: Slice<'_, f32, Host<Tag>>,
    to: &mut SliceMut<'_, f32, Host<Tag>>,
    stream: &Stream<Host<Tag>>,
) -> typed_nccl::Result<()> {
    stream.launch((&from, to), |(from, to), ()| to.copy_from_slice(from))
}

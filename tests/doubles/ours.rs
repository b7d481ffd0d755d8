//! This library's own kernels, beside calls that no kernel may take. Data moves.

use typed_nccl::{Cuda, Result, Sum};

use crate::common::{connect, says};
use crate::lowered::Folder;
use crate::scenario::{Machine, NEWEST, on};

/// Two GPUs, as a double of NCCL that moves data has no others.
const TWO: Machine = Machine { variables: &[("FAKE_CUDA_DEVICES", "2")], ..NEWEST };

/// A kernel has one element type: buffers of another one get a launch of their own.
#[test]
fn buffers_of_different_types_share_no_kernel() {
    on(TWO, || {
        let _folder = Folder::new();
        Cuda::spmd(2, |place| {
            let comm = connect(place, 20_000)?;
            let (kernels, device) = (comm.kernels()?, comm.device().clone());
            let wide = device.from_slice(&[1.5_f64; 64])?.into_dyn();
            // Twice as many bytes would reach past each of these.
            let narrow = device.from_slice(&[2.5_f32; 64])?.into_dyn();
            let last = device.from_slice(&[3.5_f32])?.into_dyn();
            let mut all = [wide, narrow, last];
            kernels.all_reduce_each_in_place(&comm, &mut all, Sum)?;
            let [wide, narrow, last] = all;
            assert_eq!(wide.try_into_typed::<f64>()?.to_vec()?, [3.0; 64]);
            assert_eq!(narrow.try_into_typed::<f32>()?.to_vec()?, [5.0; 64]);
            assert_eq!(last.try_into_typed::<f32>()?.to_vec()?, [7.0]);
            comm.finish()
        })?;
        Ok(())
    });
}

/// The error of ranks that reduce buffers of these lengths: by rank and by call.
fn differ(lengths: [&[&[usize]]; 2], words: &[&str]) -> Result<()> {
    let _folder = Folder::new();
    Cuda::spmd(2, |place| {
        let comm = connect(place, 20_000)?;
        let kernels = comm.kernels()?;
        let zeros = |len: &usize| comm.device().zeros::<f32>(*len);
        comm.barrier()?;
        let called = lengths[comm.rank().index()].iter().try_for_each(|lengths| {
            let mut all = lengths.iter().map(zeros).collect::<Result<Vec<_>>>()?;
            kernels.all_reduce_each_in_place(&comm, &mut all, Sum)
        });
        let told = called.and_then(|()| comm.sync(comm.stream()));
        says(&told.expect_err("they differ"), words);
        Ok(())
    })
    .map(drop)
}

/// Their elements would meet others, although the sums of the lengths are the same.
#[test]
fn lengths_of_fused_buffers_are_compared_between_ranks() {
    on(TWO, || differ([&[&[3, 5]], &[&[5, 3]]], &["all_reduce of 3 f32", "all_reduce of 5 f32"]));
}

/// One launch of two buffers, and one launch of each.
#[test]
fn fused_buffers_meet_no_single_ones() {
    on(TWO, || differ([&[&[3, 5]], &[&[3], &[5]]], &["a kernel of this library or not"]));
}

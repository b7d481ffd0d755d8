//! The devices that programs run on: GPUs, and the launches on them.

use typed_nccl::{AnyDevice, Cuda, Result, Slice, SliceMut};

use super::kernels::Kernels;
use super::model;
use super::store::Queue;

pub(crate) type Dev = Cuda<AnyDevice>;

/// Opens a GPU and launches each kernel once while nothing else runs on it, since loading a kernel
/// may wait for the GPU, and so for the other ranks. The results are checked against the model.
pub(crate) fn open(index: usize) -> Result<Dev> {
    const LEN: u32 = 1000;
    let device = crate::common::gpu(index)?;
    let stream = device.stream()?;
    stream.launch((), move |(), _| Kernels::load(index))?;

    let mut needed: Vec<u32> = (0..LEN).map(|i| i.wrapping_mul(0x9e37_79b9)).collect();
    let mut left = device.from_slice(&needed)?;
    let mut right = device.from_slice(&needed[1..])?;
    let mut beside = needed[1..].to_vec();
    mixed(&stream, &right.all(), &mut left.all_mut())?;
    model::mixed(&beside, &mut needed);
    split(&stream, &mut left.all_mut(), &mut right.all_mut())?;
    model::split(&mut needed, &mut beside);
    scaled(&stream, &mut right.all_mut())?;
    model::scaled(&mut beside);
    assert!(left.to_vec()? == needed, "a kernel differs from its model");
    assert!(right.to_vec()? == beside, "a kernel differs from its model");
    Ok(device)
}

/// Launches what [`model::mixed`] does.
pub(crate) fn mixed(
    stream: &Queue,
    from: &Slice<'_, u32, Dev>,
    to: &mut SliceMut<'_, u32, Dev>,
) -> Result<()> {
    let kernels = Kernels::of(stream.device());
    stream.launch((from, to), |(from, to), on| kernels.mixed(from, to, on))
}

/// Launches what [`model::split`] does.
pub(crate) fn split(
    stream: &Queue,
    left: &mut SliceMut<'_, u32, Dev>,
    right: &mut SliceMut<'_, u32, Dev>,
) -> Result<()> {
    let kernels = Kernels::of(stream.device());
    stream.launch((left, right), |(left, right), on| kernels.split(left, right, on))
}

/// Launches what [`model::scaled`] does.
pub(crate) fn scaled(stream: &Queue, all: &mut SliceMut<'_, u32, Dev>) -> Result<()> {
    let kernels = Kernels::of(stream.device());
    stream.launch(all, |all, on| kernels.scaled(all, on))
}

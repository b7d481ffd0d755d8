//! The devices that programs run on: host devices, and the launches on them.

use typed_nccl::{AnyDevice, Host, Result, Slice, SliceMut};

use super::claims::{Claim, hold};
use super::model;
use super::store::Queue;

pub(crate) type Dev = Host<AnyDevice>;

pub(crate) fn open(index: usize) -> Result<Dev> {
    Host::any(index as u32)
}

/// Launches what [`model::mixed`] does.
pub(crate) fn mixed(
    stream: &Queue,
    from: &Slice<'_, u32, Dev>,
    to: &mut SliceMut<'_, u32, Dev>,
) -> Result<()> {
    stream.launch((from, to), |(from, to), ()| {
        let _held = hold([Claim::read(from), Claim::write(to)]);
        model::mixed(from, to)
    })
}

/// Launches what [`model::split`] does.
pub(crate) fn split(
    stream: &Queue,
    left: &mut SliceMut<'_, u32, Dev>,
    right: &mut SliceMut<'_, u32, Dev>,
) -> Result<()> {
    stream.launch((left, right), |(left, right), ()| {
        let _held = hold([Claim::write(left), Claim::write(right)]);
        model::split(left, right)
    })
}

/// Launches what [`model::scaled`] does.
pub(crate) fn scaled(stream: &Queue, all: &mut SliceMut<'_, u32, Dev>) -> Result<()> {
    stream.launch(all, |all, ()| {
        let _held = hold([Claim::write(all)]);
        model::scaled(all)
    })
}

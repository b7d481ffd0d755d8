//! Memory kinds: which allocator a buffer's memory came from.

use crate::backend::AllocKind;

/// Plain device memory in stream order, from `device.zeros(n)`.
#[derive(Clone, Copy, Debug)]
pub struct DeviceMem;

/// Memory from NCCL's allocator, which can back a symmetric window: `device.nccl_zeros(n)`.
#[derive(Clone, Copy, Debug)]
pub struct NcclMem;

/// A kind of memory. Sealed.
pub trait MemoryKind: sealed::Sealed + 'static {
    /// The allocator.
    const ALLOC: AllocKind;
}

impl MemoryKind for DeviceMem {
    const ALLOC: AllocKind = AllocKind::Plain;
}

impl MemoryKind for NcclMem {
    const ALLOC: AllocKind = AllocKind::Nccl;
}

/// Memory that can back a window. Sealed.
#[diagnostic::on_unimplemented(
    message = "this memory cannot back a window: it is `{Self}`, and peers reach `NcclMem` only",
    label = "this memory cannot back a window",
    note = "allocate it with `device.nccl_zeros(len)`, or use `comm.window(len)`; a tensor that was made in such memory is taken with `tensor.nccl_on(&device)`"
)]
pub trait WindowMemory: MemoryKind {}

impl WindowMemory for NcclMem {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::DeviceMem {}
    impl Sealed for super::NcclMem {}
}

//! Memory kinds: which allocator a buffer's memory came from.

use crate::backend::AllocKind;

/// Plain device memory in stream order, from `device.zeros(n)`.
///
/// ```
/// use typed_nccl::{Buffer, DeviceMem, Host, NcclMem, Result};
///
/// # fn main() -> Result<()> {
/// let host = Host::local()?;
/// let plain: Buffer<f32, Host, DeviceMem> = host.zeros(4)?; // `Buffer<f32, Host>` for short
/// let for_windows: Buffer<f32, Host, NcclMem> = host.nccl_zeros(4)?;
/// assert_eq!(plain.len(), for_windows.len());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeviceMem;

/// Memory from NCCL's allocator, which can back a symmetric window: `device.nccl_zeros(n)`.
///
/// See the example of [`DeviceMem`].
#[derive(Clone, Copy, Debug)]
pub struct NcclMem;

/// A kind of memory. Sealed.
///
/// ```
/// # use typed_nccl::{Buffer, Host, MemoryKind};
/// fn bytes<M: MemoryKind>(x: &Buffer<f64, Host, M>) -> usize {
///     8 * x.len()
/// }
/// let host = Host::local()?;
/// assert_eq!(bytes(&host.zeros(4)?) + bytes(&host.nccl_zeros(4)?), 64);
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not memory that this library allocates",
    label = "needs a buffer of `DeviceMem` or `NcclMem`",
    note = "adopted memory goes back to its owner as a whole, with `buffer.into_inner()`; view a part of it with `buffer.slice(..)`"
)]
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
///
/// ```
/// # use typed_nccl::{Buffer, Communicator, Host, Result, Seat, Symmetric, Window, WindowMemory};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// fn register<M: WindowMemory>(
///     comm: &mut Communicator<Host>,
///     x: Buffer<f32, Host, M>,
/// ) -> Result<Window<f32, Host>> {
///     comm.register_window_as(x, Symmetric)
/// }
/// let x = comm.device().nccl_zeros(4)?; // `zeros` would not compile
/// assert_eq!(register(&mut comm, x)?.len(), 4);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a window cannot be made of `{Self}` memory, only of `NcclMem`",
    label = "this was not allocated with `ncclMemAlloc`",
    note = "allocate it with `device.nccl_zeros(len)`, or use `comm.window(len)`",
    note = "a tensor in such memory is taken with `tensor.nccl_on(&device)`"
)]
pub trait WindowMemory: MemoryKind {}

impl WindowMemory for NcclMem {}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::DeviceMem {}
    impl Sealed for super::NcclMem {}
}

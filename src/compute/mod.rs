//! Kernels as data: declarations, arguments as a backend sees them, what a host body gets.

mod arguments;
mod declaration;
mod views;
mod windows;

pub use arguments::{Argument, Arguments, HeldArgument, HeldArguments, HeldMemory, Shown};

pub use declaration::{Kernel, Parameter, Scalar, Source, SourceKind, Type};
pub(crate) use views::View;
pub use views::{Extents, SliceLen, Views};
pub use windows::HeldWindow;
pub(crate) use windows::Reach;

/// The most arguments that a kernel can have.
pub(crate) const ARGUMENTS: usize = 12;

/// The number of blocks and threads, and their shared memory.
#[doc(hidden)]
#[derive(Clone, Copy, Default, Debug)]
pub struct Grid {
    /// Blocks and threads, if they differ from the kernel's declaration.
    pub size: Option<(u32, u32)>,
    /// Bytes of dynamic shared memory per block.
    pub shared: u32,
}

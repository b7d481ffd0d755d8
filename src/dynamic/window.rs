//! A window's kind, as a value.

use std::fmt;

use crate::{Element, Window, WindowKind, World};

/// NCCL's window flags.
///
/// ```
/// # use typed_nccl::{Host, Seat, Symmetric, WindowFlags};
/// # let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
/// let window = comm.window::<f32>(4)?;
/// assert!(window.flags() == WindowFlags::of::<Symmetric>() && window.flags().bits() == 1);
/// # comm.finish()?;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct WindowFlags(u32);

impl WindowFlags {
    /// The flags of a kind.
    pub const fn of<K: WindowKind>() -> Self {
        Self(K::BITS)
    }

    /// NCCL's bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether they are the flags of this kind.
    pub const fn is<K: WindowKind>(self) -> bool {
        self.0 == K::BITS
    }
}

impl fmt::Display for WindowFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "window flags {:#b}", self.0)
    }
}

impl<T: Element, W: World, K: WindowKind> Window<T, W, K> {
    /// The kind that it was registered as, as a value.
    pub fn flags(&self) -> WindowFlags {
        WindowFlags::of::<K>()
    }
}

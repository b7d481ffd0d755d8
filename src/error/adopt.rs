//! What of somebody else's cannot be used.

use std::fmt;

use super::{Error, Site};
use crate::DType;

/// Memory or a stream of somebody else's that cannot be used. Nothing was done with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NotAdoptable {
    /// The method.
    pub operation: &'static str,
    /// Why.
    pub fault: AdoptFault,
    /// Where.
    pub site: Site,
}

/// Why something of somebody else's cannot be used.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AdoptFault {
    /// There are no elements.
    Empty,
    /// There are more bytes than memory can have.
    TooLong,
    /// The address is null.
    Null,
    /// The address is not one of an element.
    Misaligned {
        /// The address.
        address: usize,
        /// The element type.
        dtype: DType,
    },
    /// It is of another context than CUDA's primary one of the device.
    OtherContext,
    /// It is CUDA's per-thread default stream.
    PerThreadStream,
}

impl fmt::Display for AdoptFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str(
                "the memory has no elements, and NCCL would be given its address; an empty operand is `buffer.slice(0..0)` of another buffer, or an empty slice that is lent",
            ),
            Self::TooLong => f.write_str("the elements take more bytes than memory can have"),
            Self::Null => f.write_str("the address is null: allocate the memory first"),
            Self::Misaligned { address, dtype } => {
                let size = dtype.size();
                write!(
                    f,
                    "the address {address:#x} is no multiple of {size}, as that of {dtype} is; copy the elements to a buffer of their own"
                )
            }
            Self::OtherContext => f.write_str(
                "it is of another context than the primary one of the GPU, which CUDA's runtime, NCCL and this library use; make it with `CudaContext::new(ordinal)`",
            ),
            Self::PerThreadStream => f.write_str(
                "CUDA's per-thread default stream is another stream on each thread; open one of your own, or order a stream with it on its thread: `stream.after(&theirs)`, `stream.before(&theirs)`",
            ),
        }
    }
}

impl fmt::Display for NotAdoptable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} (at {})", self.operation, self.fault, self.site)
    }
}

impl From<NotAdoptable> for Error {
    fn from(it: NotAdoptable) -> Self {
        Self::NotAdoptable(Box::new(it))
    }
}

//! The stream that a consumer names.

use std::num::NonZeroUsize;

use crate::Result;
use crate::error::Error;

/// The stream of `__dlpack__(stream=..)`, on which the consumer uses a tensor of a GPU.
///
/// The producer makes that stream wait for its own work.
///
/// ```
/// # use typed_nccl::interop::dlpack::ConsumerStream;
/// let stream = ConsumerStream::from_protocol(Some(1)).expect("the legacy default stream");
/// assert_eq!((stream, stream.to_protocol()), (ConsumerStream::LEGACY, 1));
/// assert!(ConsumerStream::from_protocol(Some(0)).is_err()); // ambiguous
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConsumerStream {
    /// No waiting: the consumer orders its uses by itself.
    Unordered,
    /// CUDA's handle of a stream (`CUstream`, `cudaStream_t`).
    Handle(NonZeroUsize),
}

impl ConsumerStream {
    /// CUDA's legacy default stream.
    pub const LEGACY: Self = Self::Handle(NonZeroUsize::MIN);

    /// CUDA's per-thread default stream, of the calling thread.
    pub const PER_THREAD: Self = Self::Handle(NonZeroUsize::new(2).unwrap());

    /// The stream for a number of the Python protocol: -1 for none, 1 and `None` for the legacy
    /// default stream, 2 for the per-thread one, else the stream's handle.
    ///
    /// # Errors
    /// 0, which could be either default stream, and numbers below -1.
    pub fn from_protocol(number: Option<i64>) -> Result<Self> {
        let number = match number {
            None => return Ok(Self::LEGACY),
            Some(-1) => return Ok(Self::Unordered),
            Some(number) => number,
        };
        let handle = usize::try_from(number).ok().and_then(NonZeroUsize::new);
        handle.map(Self::Handle).ok_or_else(|| {
            Error::other(format!(
                "`__dlpack__(stream={number})` names no stream: it is 1 for CUDA's legacy default stream, 2 for the per-thread one, -1 for no waiting, else a stream's handle"
            ))
        })
    }

    /// The number of the Python protocol.
    pub fn to_protocol(self) -> i64 {
        match self {
            Self::Unordered => -1,
            Self::Handle(handle) => handle.get() as i64,
        }
    }

    /// CUDA's handle, if there is an order to keep; 0 for the legacy default stream.
    pub(super) fn handle(self) -> Option<usize> {
        match self {
            Self::Unordered => None,
            Self::LEGACY => Some(0),
            Self::Handle(handle) => Some(handle.get()),
        }
    }
}

//! The description of another library's tensor.

use std::thread::{self, ThreadId};

use crate::DType;
use crate::error::AdoptFault;

/// A tensor as its library describes it.
///
/// See the example of [`Tensor`](super::Tensor).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// The library's name, for messages: `torch`.
    pub library: &'static str,
    /// The address of the first element.
    pub address: usize,
    /// The element type.
    pub dtype: DType,
    /// The number of elements along each dimension.
    pub shape: Vec<usize>,
    /// The distance between neighbours along each dimension, in elements. `None` means C order.
    pub strides: Option<Vec<isize>>,
    /// Where the elements are.
    pub place: TensorPlace,
    /// Whether they may be written.
    pub writable: bool,
}

/// Where the elements of a tensor are.
///
/// See the example of [`Tensor`](super::Tensor).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TensorPlace {
    /// In host memory.
    OnHost {
        /// Whether that is page-locked.
        pinned: bool,
    },
    /// In the memory of a GPU, or in managed memory.
    OnGpu {
        /// Which GPU, as CUDA numbers them in this process.
        ordinal: u32,
        /// The stream by which the library orders its uses (`CUstream`; 0 is the legacy default
        /// stream). `None`: no enqueued work uses the elements.
        stream: Option<usize>,
    },
}

impl Described {
    /// The number of elements, if they are one contiguous block that an element type can be laid
    /// over.
    pub(in crate::interop) fn checked(&self) -> Result<usize, AdoptFault> {
        let Self { address, dtype, shape, strides, .. } = self;
        if shape.contains(&0) {
            return Err(AdoptFault::Empty);
        }
        let len = shape.iter().try_fold(1_usize, |len, &n| len.checked_mul(n));
        let fits = |len: &usize| {
            dtype.bytes_of(*len).is_some_and(|bytes| address.checked_add(bytes).is_some())
        };
        let len = len.filter(fits).ok_or(AdoptFault::TooLong)?;
        if let Some(strides) = strides
            && !is_dense(shape, strides)
        {
            let (shape, strides) = (shape.clone(), strides.clone());
            return Err(AdoptFault::Strided { shape, strides });
        }
        AdoptFault::of_address(*address, len, *dtype).map_or(Ok(len), Err)
    }
}

/// `CU_STREAM_PER_THREAD`
const PER_THREAD: usize = 2;

impl Described {
    /// The calling thread, if the stream is CUDA's per-thread one, which is this thread's.
    pub(in crate::interop) fn its_thread(&self) -> Option<ThreadId> {
        match self.place {
            TensorPlace::OnGpu { stream: Some(PER_THREAD), .. } => Some(thread::current().id()),
            _ => None,
        }
    }

    /// Fails unless the contiguous elements are in C order. Ranks with different orders would
    /// reduce different elements with each other, which nothing else detects.
    pub(in crate::interop) fn in_c_order(&self) -> Result<(), AdoptFault> {
        let Self { shape, strides: Some(strides), .. } = self else { return Ok(()) };
        let mut next = 1_usize;
        let is_next = |(&n, &stride): (&usize, &isize)| {
            // A dimension of one element has no stride.
            let fits = n == 1 || usize::try_from(stride) == Ok(next);
            next = next.saturating_mul(n);
            fits
        };
        if shape.iter().zip(strides).rev().all(is_next) {
            return Ok(());
        }
        Err(AdoptFault::OtherOrder { shape: shape.clone(), strides: strides.clone() })
    }
}

/// Whether the elements are contiguous, in any order of dimensions. No dimension is 0.
fn is_dense(shape: &[usize], strides: &[isize]) -> bool {
    if shape.len() != strides.len() {
        return false;
    }
    // A dimension of one element has no stride.
    let mut dimensions: Vec<(isize, usize)> =
        strides.iter().copied().zip(shape.iter().copied()).filter(|(_, n)| *n > 1).collect();
    dimensions.sort_unstable();
    let mut inner = 1_usize;
    dimensions.into_iter().all(|(stride, n)| {
        let fits = usize::try_from(stride) == Ok(inner);
        inner = inner.saturating_mul(n);
        fits
    })
}

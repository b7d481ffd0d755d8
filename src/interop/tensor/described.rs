//! What is known of a tensor of another library.

use crate::DType;
use crate::error::AdoptFault;

/// What a library says of a tensor of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Described {
    /// The library's name, for messages: `torch`.
    pub library: &'static str,
    /// The address of the first element.
    pub address: usize,
    /// The element type.
    pub dtype: DType,
    /// How many elements there are along each dimension.
    pub shape: Vec<usize>,
    /// How far apart the elements are along each dimension, in elements. None: the last dimension is
    /// contiguous, and so on (C order).
    pub strides: Option<Vec<isize>>,
    /// Where the elements are.
    pub place: TensorPlace,
    /// Whether they may be written.
    pub writable: bool,
}

/// Where the elements of a tensor are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TensorPlace {
    /// In the host's memory.
    OnHost {
        /// Whether that is page-locked.
        pinned: bool,
    },
    /// In the memory of a GPU, or in managed memory.
    OnGpu {
        /// Which GPU, as CUDA numbers them in this process.
        ordinal: u32,
        /// The stream by which the library orders its uses (`CUstream`; 0 is the legacy default stream).
        /// None: nothing that is enqueued uses the elements.
        stream: Option<usize>,
    },
}

impl Described {
    /// How many elements, if they are one piece of memory that an element type can be laid over.
    pub(in crate::interop) fn checked(&self) -> Result<usize, AdoptFault> {
        let Self { address, dtype, shape, strides, .. } = self;
        if shape.contains(&0) {
            return Err(AdoptFault::Empty);
        }
        let len = shape.iter().try_fold(1_usize, |len, &n| len.checked_mul(n));
        let fits = |len: &usize| {
            let bytes = len.checked_mul(dtype.size()).filter(|&it| isize::try_from(it).is_ok());
            bytes.is_some_and(|bytes| address.checked_add(bytes).is_some())
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

impl Described {
    /// Fails unless they are in the order of C, of what is one piece. Ranks of which one has another order
    /// would reduce different elements with each other, and nothing compares that.
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

/// Whether the elements are one piece, in whatever order of the dimensions. None of them is 0.
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

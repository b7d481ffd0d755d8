//! Failures to use memory or streams of other libraries.

use std::fmt;

use thiserror::Error;

use super::Site;
use super::words::Words;
use crate::DType;

/// Foreign memory or a foreign stream that cannot be used. Nothing was done with it.
///
/// ```
/// # use typed_nccl::{Error, Host, error::AdoptFault};
/// let Err(failed) = Host::local()?.adopt(Vec::<f32>::new()) else { panic!("it has no elements") };
/// assert!(matches!(failed.error, Error::NotAdoptable(not) if not.fault == AdoptFault::Empty));
/// let vector: Vec<f32> = failed.value;
/// # Ok::<(), typed_nccl::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct NotAdoptable {
    /// The library it belongs to, if known: `torch`.
    pub library: Option<&'static str>,
    /// The method.
    pub operation: &'static str,
    /// The reason.
    pub fault: AdoptFault,
    /// The call site.
    pub site: Site,
}

/// Why foreign memory or a foreign stream cannot be used.
///
/// See the example of [`NotAdoptable`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AdoptFault {
    /// It has no elements.
    Empty,
    /// It has more bytes than an address space.
    TooLong,
    /// Its elements reach past its memory.
    Outside {
        /// The number of elements.
        needed: usize,
        /// The index of the first.
        first: usize,
        /// The number of elements that the memory has.
        len: usize,
    },
    /// The address is null.
    Null,
    /// The address is not aligned for its element type.
    Misaligned {
        /// The address.
        address: usize,
        /// The element type.
        dtype: DType,
    },
    /// It belongs to a context other than CUDA's primary context of the device.
    OtherContext,
    /// It is CUDA's per-thread default stream.
    PerThreadStream,
    /// The stream is capturing a graph.
    Captures,
    /// It is not a tensor of that library.
    NotATensor {
        /// Its type.
        found: String,
    },
    /// NCCL lacks its data type.
    NoSuchType {
        /// The library's name for the type.
        found: String,
    },
    /// Its elements are not contiguous.
    Strided {
        /// The shape.
        shape: Vec<usize>,
        /// The strides, in elements.
        strides: Vec<isize>,
    },
    /// Its elements are contiguous but not in C order, so the order may differ between ranks.
    OtherOrder {
        /// The shape.
        shape: Vec<usize>,
        /// The strides, in elements.
        strides: Vec<isize>,
    },
    /// It requires a gradient.
    RequiresGrad,
    /// It is sparse: not all elements are stored.
    Sparse {
        /// The library's name for the storage layout.
        layout: String,
    },
    /// Its memory holds values with a pending operation.
    Lazy {
        /// The pending operation: `conjugate`, `negative`.
        bit: &'static str,
    },
    /// It is in host memory, and a GPU was to use it.
    HostMemory {
        /// Whether the memory is page-locked.
        pinned: bool,
    },
    /// It is in GPU memory, and the host was to use it.
    DeviceMemory {
        /// The GPU's ordinal.
        ordinal: u32,
    },
    /// It is read-only.
    ReadOnly,
    /// Some of the elements are in use by another loan or buffer.
    InUse {
        /// The other use.
        by: String,
    },
    /// It was in a window of a communicator that failed.
    Exposed,
    /// It is lent for the duration of a closure.
    Lent,
    /// It is not in NCCL memory that this library allocated.
    NotNccls,
    /// It is not virtual memory of CUDA's, which NCCL's allocator gives.
    NotVirtual,
    /// It uses another version of the DLPack layout.
    DlpackVersion {
        /// The major version.
        major: u32,
        /// The minor version.
        minor: u32,
    },
    /// It is on a device that is neither the host nor a CUDA GPU.
    NoSuchDevice {
        /// The device.
        found: String,
    },
    /// It is in host memory, and a stream was passed.
    HostStream,
    /// Both sides of a collective have elements in common, and it cannot run in place.
    Overlaps,
}

impl AdoptFault {
    /// The fault of an address for this many elements.
    pub(crate) fn of_address(address: usize, len: usize, dtype: DType) -> Option<Self> {
        match address {
            _ if len == 0 => None,
            0 => Some(Self::Null),
            _ if !address.is_multiple_of(dtype.align()) => {
                Some(Self::Misaligned { address, dtype })
            }
            _ => None,
        }
    }
}

impl NotAdoptable {
    pub(crate) fn new(operation: &'static str, fault: AdoptFault, site: Site) -> Self {
        Self { library: None, operation, fault, site }
    }

    /// Names the library it belongs to.
    pub(crate) fn of(self, library: &'static str) -> Self {
        Self { library: Some(library), ..self }
    }
}

impl AdoptFault {
    /// Describes the fault, and the remedy in the library's words.
    fn says(&self, f: &mut fmt::Formatter<'_>, words: &Words) -> fmt::Result {
        let Words { dense, permuted, detach, all, now, to_gpu, to_host, empty, itself } = words;
        match self {
            Self::Empty => f.write_str(
                "the memory has no elements, and NCCL would be given its address; an empty operand is `buffer.slice(0..0)` of another buffer, or an empty slice that is lent",
            ),
            Self::TooLong => f.write_str("the elements take more bytes than memory can have"),
            Self::Outside { needed, first, len } => write!(
                f,
                "it says that it has {needed} elements from number {first} on, and its memory has {len}; give it the shape of its memory"
            ),
            Self::Null => f.write_str("the address is null: allocate the memory first"),
            Self::Misaligned { address, dtype } => {
                let size = dtype.align();
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
            Self::Captures => f.write_str(
                "a graph is captured on that stream: what is enqueued on it runs at each launch, and nothing would keep or order its memory then; record it with the capture (`g.launch(&mut x, ..)`, `g.fill(..)`), or enqueue it on a stream of `device.stream()`",
            ),
            Self::NotATensor { found } => {
                write!(f, "it is {found}, and no tensor; pass {itself}")
            }
            Self::NoSuchType { found } => write!(
                f,
                "its elements are {found}, which NCCL does not have; NCCL has {}",
                DType::of_nccl()
            ),
            Self::Strided { shape, strides } => write!(
                f,
                "its elements are not one piece of memory (shape {shape:?}, strides {strides:?} in elements); use {dense}"
            ),
            Self::OtherOrder { shape, strides } => write!(
                f,
                "its elements are not in C order (shape {shape:?}, strides {strides:?} in elements), and a rank whose are would get sums of other ones; use {dense}, or, to write where they are, {permuted} that is in C order"
            ),
            Self::RequiresGrad => write!(
                f,
                "it requires a gradient, which would not know of what is written; use {detach}"
            ),
            Self::Sparse { layout } => {
                write!(f, "it is sparse ({layout}): not all of its elements are there; use {all}")
            }
            Self::Lazy { bit } => {
                write!(f, "its values are the {bit} of what its memory has; use {now}")
            }
            Self::HostMemory { pinned } => {
                let kind = if *pinned { "page-locked" } else { "pageable" };
                write!(f, "it is in {kind} memory of the host, and the device is a GPU; use {to_gpu}")
            }
            Self::DeviceMemory { ordinal } => write!(
                f,
                "it is in the memory of GPU {ordinal}, and the device is the host; use {to_host}, or a communicator on `Cuda`"
            ),
            Self::ReadOnly => f.write_str(
                "it is read-only, and a buffer or an exclusive loan of it can be written; lend it shared, as `&x`, or copy it",
            ),
            Self::InUse { by } => {
                write!(f, "some of these elements are in use by {by}; end that first")
            }
            Self::Exposed => f.write_str(
                "it was in a window of a communicator that failed, and puts of its ranks may still write it as a whole; keep it whole, or copy it to other memory",
            ),
            Self::Lent => f.write_str(
                "the memory is lent for the time of a closure, and NCCL would name it when that is over; register memory that the device has: allocate it, or have the device own it with `device.adopt(owner)`",
            ),
            Self::DlpackVersion { major, minor } => write!(
                f,
                "it is a tensor of DLPack {major}.{minor}, and this library reads 1.x and what has no version; have it made by `__dlpack__(max_version=(1, 3))`"
            ),
            Self::NoSuchDevice { found } => {
                write!(f, "it is on {found}; NCCL uses the memory of CUDA's GPUs, and the host device that of the host")
            }
            Self::HostStream => f.write_str(
                "it is in the host's memory, and no stream orders who uses that; wait for the stream and name none (`dlpack::import`)",
            ),
            Self::Overlaps => f.write_str(
                "its send and receive sides have elements in common; pass the same elements for both, or where one side is all ranks' parts, this rank's own part of it, or memory apart",
            ),
            Self::NotVirtual => f.write_str(
                "NCCL registers no window in it: it is neither of `ncclMemAlloc` nor otherwise mapped by CUDA's virtual memory functions; adopt it with `Buffer::from_raw`",
            ),
            Self::NotNccls => write!(
                f,
                "it is not in memory of NCCL's that this library gave out, and peers reach no other; make it with {empty}"
            ),
        }
    }
}

impl fmt::Display for AdoptFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.says(f, Words::of(None))
    }
}

impl fmt::Display for NotAdoptable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { library, operation, fault, site } = self;
        match library {
            None => write!(f, "{operation}: ")?,
            Some(library) => write!(f, "{operation}, of {library}: ")?,
        }
        fault.says(f, Words::of(*library))?;
        write!(f, " (at {site})")
    }
}

//! What of somebody else's cannot be used.

use std::fmt;

use thiserror::Error;

use super::Site;
use super::words::Words;
use crate::DType;

/// Memory or a stream of somebody else's that cannot be used. Nothing was done with it.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct NotAdoptable {
    /// Whose it is, where that is known: `torch`.
    pub library: Option<&'static str>,
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
    /// There are more elements than the memory has.
    Outside {
        /// How many there are.
        needed: usize,
        /// The first of them.
        first: usize,
        /// How many the memory has.
        len: usize,
    },
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
    /// A graph is captured on the stream.
    Captures,
    /// It is no tensor of that library.
    NotATensor {
        /// What it is.
        found: String,
    },
    /// NCCL has no such data type.
    NoSuchType {
        /// The library's name of it.
        found: String,
    },
    /// Its elements are not one piece of memory.
    Strided {
        /// The shape.
        shape: Vec<usize>,
        /// The strides, in elements.
        strides: Vec<isize>,
    },
    /// Its elements are one piece of memory, and not in C order: other ranks' may be in another one.
    OtherOrder {
        /// The shape.
        shape: Vec<usize>,
        /// The strides, in elements.
        strides: Vec<isize>,
    },
    /// A gradient is recorded for it.
    RequiresGrad,
    /// Not all of its elements are there.
    Sparse {
        /// The library's name of how it is stored.
        layout: String,
    },
    /// Its memory does not have its values.
    Lazy {
        /// What is still to be taken: `conjugate`, `negative`.
        bit: &'static str,
    },
    /// It is in the host's memory, and asked for by a GPU.
    HostMemory {
        /// Whether that is page-locked.
        pinned: bool,
    },
    /// It is in a GPU's memory, and asked for by the host.
    DeviceMemory {
        /// Which GPU's.
        ordinal: u32,
    },
    /// It must not be written.
    ReadOnly,
    /// Another loan or buffer has some of the elements.
    InUse {
        /// Which.
        by: String,
    },
    /// It is lent for the time of a closure.
    Lent,
    /// It is not in memory of NCCL's that this library gave out.
    NotNccls,
    /// It is laid out as another version of DLPack has it.
    DlpackVersion {
        /// The first number.
        major: u32,
        /// The second one.
        minor: u32,
    },
    /// It is on a device that is neither the host nor a GPU of CUDA's.
    NoSuchDevice {
        /// Which.
        found: String,
    },
    /// It is in the host's memory, and a stream was named.
    HostStream,
}

impl NotAdoptable {
    pub(crate) fn new(operation: &'static str, fault: AdoptFault, site: Site) -> Self {
        Self { library: None, operation, fault, site }
    }

    /// It is that library's.
    pub(crate) fn of(self, library: &'static str) -> Self {
        Self { library: Some(library), ..self }
    }
}

impl AdoptFault {
    /// The fault, and what mends it in the library's words.
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
            Self::Captures => f.write_str(
                "a graph is captured on that stream: what is enqueued on it runs at each launch, and nothing would keep or order its memory then; record it with the capture (`g.launch(&mut x, ..)`, `g.fill(..)`), or enqueue it on a stream of `device.stream()`",
            ),
            Self::NotATensor { found } => {
                write!(f, "it is {found}, and no tensor; pass {itself}")
            }
            Self::NoSuchType { found } => write!(
                f,
                "its elements are {found}, which NCCL does not have; NCCL has i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16, f8e4m3 and f8e5m2"
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

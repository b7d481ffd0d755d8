//! Pinned memory, and copies in stream order.

use std::collections::HashMap;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::{CudaBackend, CudaStream, Gpu, Recorded, convert, driver};
use crate::backend::{Allocation, Copies};
use crate::error::Site;
use crate::lock::Mutex;
use crate::{DType, Result};

/// Unused pinned memory of one GPU, by size.
#[derive(Default)]
pub(super) struct PinnedPool(Mutex<HashMap<usize, Vec<Raw>>>);

struct Raw {
    start: *mut u8,
    bytes: usize,
    /// Reusable after its last copy.
    last: Option<Recorded>,
}

// SAFETY: an address and a size; the owner of the block decides who touches the bytes.
unsafe impl Send for Raw {}

/// Page-locked host memory.
pub struct PinnedBlock {
    start: *mut u8,
    bytes: usize,
    last: Mutex<Option<Recorded>>,
    gpu: &'static Gpu,
}

// SAFETY: it hands out raw pointers only.
unsafe impl Send for PinnedBlock {}
// SAFETY: as above.
unsafe impl Sync for PinnedBlock {}

const LEAST: usize = 4096;

impl PinnedBlock {
    fn zeroed(gpu: &'static Gpu, bytes: usize) -> Result<Self> {
        let size = bytes.max(LEAST).next_power_of_two();
        let mut pool = gpu.pinned.0.lock();
        let free = pool.entry(size).or_default();
        let over = |raw: &Raw| raw.last.as_ref().is_none_or(|last| last.reached().unwrap_or(false));
        let pooled = free.iter().position(over).map(|index| free.swap_remove(index));
        drop(pool);
        let start = match pooled {
            Some(raw) => raw.start,
            None => {
                gpu.bind()?;
                // SAFETY: the context is current, and the size is not 0.
                unsafe { result::malloc_host(size, 0) }
                    .map_err(|error| driver::no_memory(size, gpu.ordinal(), error))?
                    .cast()
            }
        };
        // SAFETY: `size` bytes of host memory that nothing else uses.
        unsafe { start.write_bytes(0, size) };
        Ok(Self { start, bytes: size, last: Mutex::default(), gpu })
    }

    /// Records that a copy from or to it is over at `point`.
    fn used_until(&self, point: &Recorded) {
        *self.last.lock() = Some(point.clone());
    }
}

impl Drop for PinnedBlock {
    fn drop(&mut self) {
        let last = self.last.get_mut().take();
        let raw = Raw { start: self.start, bytes: self.bytes, last };
        let mut pool = self.gpu.pinned.0.lock();
        pool.entry(raw.bytes).or_default().push(raw);
    }
}

// SAFETY: pinned memory is page-locked host memory, zeroed, never freed, and reused only after its
// last copy is over. The driver runs a copy in the stream's order. Device memory outlives the copy:
// its header records the stream.
unsafe impl Copies for CudaBackend {
    type Pinned = PinnedBlock;

    fn pin(ordinal: u32, bytes: usize) -> Result<PinnedBlock> {
        PinnedBlock::zeroed(Gpu::open(ordinal)?, bytes)
    }

    fn pinned_address(pinned: &PinnedBlock) -> *mut u8 {
        pinned.start
    }

    unsafe fn upload(
        stream: &Arc<CudaStream>,
        from: &Arc<PinnedBlock>,
        to: &Arc<Allocation<Self>>,
        offset: usize,
        bytes: usize,
        _: Site,
    ) -> Result<Recorded> {
        let address = to.block().at(offset) as sys::CUdeviceptr;
        let start = from.start.cast();
        // SAFETY: the caller keeps both ranges inside, other uses away, and `from` untouched.
        let copy = || unsafe { sys::cuMemcpyHtoDAsync_v2(address, start, bytes, stream.raw()) };
        enqueue(stream, from, bytes, copy)
    }

    unsafe fn download(
        stream: &Arc<CudaStream>,
        from: &Arc<Allocation<Self>>,
        offset: usize,
        to: &Arc<PinnedBlock>,
        bytes: usize,
        _: Site,
    ) -> Result<Recorded> {
        let address = from.block().at(offset) as sys::CUdeviceptr;
        let start = to.start.cast();
        // SAFETY: the caller keeps both ranges inside, writers away, and `to` untouched.
        let copy = || unsafe { sys::cuMemcpyDtoHAsync_v2(start, address, bytes, stream.raw()) };
        enqueue(stream, to, bytes, copy)
    }

    unsafe fn copy(
        stream: &Arc<CudaStream>,
        (from, start): (&Arc<Allocation<Self>>, usize),
        (to, offset): (&Arc<Allocation<Self>>, usize),
        bytes: usize,
        _: Site,
    ) -> Result<()> {
        let (from, to) = (from.block().at(start) as u64, to.block().at(offset) as u64);
        // SAFETY: the caller keeps both ranges inside, and other uses away.
        unsafe { copy_from(stream, from, to, bytes) }
    }

    fn can_convert(stream: &Arc<CudaStream>, from: DType, to: DType) -> Result<()> {
        convert::load(stream, from, to)
    }

    unsafe fn convert(
        stream: &Arc<CudaStream>,
        (from, start, dtype): (&Arc<Allocation<Self>>, usize, DType),
        (to, offset, into): (&Arc<Allocation<Self>>, usize, DType),
        count: usize,
        _: Site,
    ) -> Result<()> {
        let from = from.block().at(start) as sys::CUdeviceptr;
        let to = to.block().at(offset) as sys::CUdeviceptr;
        // SAFETY: the caller's promise.
        unsafe { convert::enqueue(stream, (from, dtype), (to, into), count) }
    }

    unsafe fn fill(
        stream: &Arc<CudaStream>,
        (to, offset): (&Arc<Allocation<Self>>, usize),
        value: [u8; 8],
        size: usize,
        count: usize,
        _: Site,
    ) -> Result<()> {
        let to = to.block().at(offset) as sys::CUdeviceptr;
        let [a, b, c, d, rest @ ..] = value;
        let (low, high) = (u32::from_ne_bytes([a, b, c, d]), u32::from_ne_bytes(rest));
        let (raw, alike) = (stream.raw(), low == high);
        within(stream, "filling", count, || match (size, alike) {
            // SAFETY: the caller keeps the range inside, and other uses away.
            (1, _) => unsafe { sys::cuMemsetD8Async(to, a, count, raw) },
            // SAFETY: as above; aligned by the caller's promise.
            (2, _) => unsafe { sys::cuMemsetD16Async(to, u16::from_ne_bytes([a, b]), count, raw) },
            // SAFETY: as above.
            (4, _) => unsafe { sys::cuMemsetD32Async(to, low, count, raw) },
            // SAFETY: as above; both halves are alike.
            (_, true) => unsafe { sys::cuMemsetD32Async(to, low, 2 * count, raw) },
            _ => {
                // The driver cannot fill with 8-byte values: fill rows of one half each, 8 bytes
                // apart. SAFETY: as above.
                let first = unsafe { sys::cuMemsetD2D32Async(to, 8, low, 1, count, raw) };
                if first != sys::CUresult::CUDA_SUCCESS {
                    return first;
                }
                // SAFETY: as above.
                unsafe { sys::cuMemsetD2D32Async(to + 4, 8, high, 1, count, raw) }
            }
        })
    }
}

/// Enqueues a copy between addresses of memory that the device reaches.
///
/// # Safety
/// As for [`Copies::copy`].
pub(crate) unsafe fn copy_from(
    stream: &CudaStream,
    from: u64,
    to: u64,
    bytes: usize,
) -> Result<()> {
    within(stream, "copying", bytes, || {
        // SAFETY: the caller keeps both ranges inside, and other uses away.
        unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, stream.raw()) }
    })
}

/// Enqueues an operation that touches device memory only.
fn within(
    stream: &CudaStream,
    doing: &'static str,
    len: usize,
    work: impl FnOnce() -> sys::CUresult,
) -> Result<()> {
    let gpu = stream.gpu();
    gpu.bind()?;
    if len == 0 {
        return Ok(());
    }
    work().result().map_err(|error| driver::failed(doing, gpu.ordinal(), error))
}

fn enqueue(
    stream: &Arc<CudaStream>,
    pinned: &PinnedBlock,
    bytes: usize,
    copy: impl FnOnce() -> sys::CUresult,
) -> Result<Recorded> {
    let gpu = stream.gpu();
    gpu.bind()?;
    if bytes > 0 {
        copy().result().map_err(|error| driver::failed("copying", gpu.ordinal(), error))?;
    }
    let point = Recorded::now(stream).inspect_err(|_| {
        // The copy may be under way without anything to show when it is over. Wait for the device;
        // that fails too if it is lost, but then it copies no more. SAFETY: streams of ours are
        // never destroyed, others are kept.
        let _ = unsafe { result::stream::synchronize(stream.raw()) };
    })?;
    pinned.used_until(&point);
    Ok(point)
}

//! Device memory.

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::{result, sys};

use super::alias_mapping::AliasMapping;
use super::{CudaBackend, CudaStream, Gpu, driver};
use crate::Result;
use crate::backend::{AllocKind, Memory, Owner};
use crate::error::{Error, NoMemory, Site};

/// A range of device memory.
pub struct Block {
    raw: Raw,
    gpu: &'static Gpu,
}

/// A block without its device. Its holder may hand it out or free it.
pub(super) struct Raw {
    pub(super) address: sys::CUdeviceptr,
    /// The allocated size, rounded up to the size class.
    pub(super) bytes: usize,
    pub(super) kind: AllocKind,
    /// The address for transfers; only for NCCL's memory.
    pub(super) alias: Option<AliasMapping>,
}

/// The smallest allocation: the alignment of the driver's own allocations.
const LEAST: usize = 512;

/// Larger sizes are multiples of this, the granularity of NCCL's allocator.
const PAGE: usize = 2 << 20;

/// The size class of a request. Memory is reused within its class only, so small sizes share few
/// classes. Every rank that asks for the same amount gets the same.
fn class(bytes: usize, kind: AllocKind) -> usize {
    match kind {
        AllocKind::Plain if bytes <= PAGE => bytes.max(LEAST).next_power_of_two(),
        _ => bytes.max(1).div_ceil(PAGE).saturating_mul(PAGE),
    }
}

impl Block {
    fn zeroed(gpu: &'static Gpu, bytes: usize, kind: AllocKind) -> Result<Self> {
        gpu.bind()?;
        let raw = Self::raw(gpu, class(bytes, kind), kind)?;
        if bytes > 0 {
            let zeroed = gpu.now("zeroing memory", |stream| {
                // SAFETY: the range is the block's, which nothing else uses yet.
                unsafe { result::memset_d8_async(raw.address, 0, bytes, stream) }
            });
            if let Err(error) = zeroed {
                // The next user zeroes it on the same stream, hence after this.
                gpu.blocks.retire(raw, Vec::new());
                return Err(error);
            }
        }
        Ok(Self { raw, gpu })
    }

    /// A block of this class: a free one, or a new one.
    fn raw(gpu: &'static Gpu, bytes: usize, kind: AllocKind) -> Result<Raw> {
        if let Some(raw) = gpu.blocks.take(gpu, kind, bytes) {
            return Ok(raw);
        }
        let error = match fresh(gpu, bytes, kind) {
            Err(error @ (Error::NoMemory(_) | Error::NcclFailed(_))) => error,
            fresh => return fresh,
        };
        // Free blocks of other classes may be enough. Returning them waits for all work on the
        // device, which may wait for a rank that waits for this one.
        let (kept, in_use) = gpu.blocks.bytes(gpu);
        if kept > 0 && !gpu.is_busy() {
            gpu.trim()?;
            return fresh(gpu, bytes, kind);
        }
        match error {
            Error::NcclFailed(_) if kept == 0 => Err(error),
            _ => Err(Error::from(NoMemory {
                bytes,
                kind: "cuda",
                ordinal: gpu.ordinal(),
                kept,
                in_use,
            })),
        }
    }

    /// The device address of its start.
    #[inline]
    pub(crate) fn address(&self) -> *mut c_void {
        self.raw.address as usize as *mut c_void
    }

    /// The address for transfers, which NCCL does not know as registered.
    pub(crate) fn alias(&self, offset: usize) -> *mut c_void {
        let alias = self.raw.alias.as_ref();
        let start = alias.map_or(self.raw.address, |alias| alias.address);
        (start as usize as *mut c_void).wrapping_byte_add(offset)
    }

    /// Whether NCCL takes these bytes for registered if this block is, as it registers whole pages.
    pub(crate) fn shares_pages_with(&self, start: *mut c_void, bytes: usize) -> bool {
        const PAGE: usize = 4096;
        let first = self.address().addr() / PAGE * PAGE;
        let end = (self.address().addr() + self.raw.bytes.max(1)).next_multiple_of(PAGE);
        bytes > 0 && first <= start.addr() && start.addr() + bytes <= end
    }

    /// Whether NCCL's allocator made it.
    #[inline]
    pub(crate) fn is_nccls(&self) -> bool {
        self.raw.kind == AllocKind::Nccl
    }

    /// The address at `offset` bytes, which is at most the block's length.
    #[inline]
    pub(crate) fn at(&self, offset: usize) -> *mut c_void {
        self.address().wrapping_byte_add(offset)
    }
}

/// The second address of memory that another library got from NCCL's allocator; goes with it.
struct Mapped {
    alias: Option<AliasMapping>,
    gpu: &'static Gpu,
}

impl Drop for Mapped {
    fn drop(&mut self) {
        let is_bound = self.gpu.bind().is_ok();
        if let Some(alias) = self.alias.take().filter(|_| is_bound) {
            // SAFETY: the owner of the memory goes with this, once nothing of ours uses it.
            unsafe { alias.unmap() };
        }
    }
}

/// A block over memory of NCCL's allocator, or other virtual memory, that is owned elsewhere, its
/// distance from the start of its allocation, and what must go when nothing uses the block any more.
/// `None` for memory of another kind, which NCCL takes for no window.
///
/// # Safety
/// As for [`Memory::adopt`].
pub(crate) unsafe fn adopt_nccls(
    ordinal: u32,
    start: *mut u8,
    bytes: usize,
) -> Result<Option<(Block, usize, Box<dyn Send>)>> {
    let gpu = Gpu::open(ordinal)?;
    gpu.bind()?;
    let address = start.expose_provenance() as sys::CUdeviceptr;
    let Some(whole) = AliasMapping::of(gpu, address)? else { return Ok(None) };
    let mapped = Mapped { alias: Some(whole.again()), gpu };
    let failed = |error| driver::failed("mapping NCCL's memory again", ordinal, error);
    let alias = whole.part_at(address).map_err(failed)?;
    // The memory may lie in several pieces, of which this is the first.
    if alias.bytes() < bytes {
        return Ok(None);
    }
    let before = (alias.address - whole.address) as usize;
    let alias = Some(alias);
    gpu.blocks.look(gpu);
    let raw = Raw { address, bytes, kind: AllocKind::Nccl, alias };
    Ok(Some((Block { raw, gpu }, before, Box::new(mapped))))
}

fn fresh(gpu: &'static Gpu, bytes: usize, kind: AllocKind) -> Result<Raw> {
    let address = match kind {
        // SAFETY: the size is not 0, and the context is current.
        AllocKind::Plain => unsafe { result::malloc_sync(bytes) }
            .map_err(|error| driver::no_memory(bytes, gpu.ordinal(), error))?,
        AllocKind::Nccl => crate::nccl::alloc(bytes, gpu.ordinal())?,
    };
    let alias = match kind {
        AllocKind::Plain => None,
        AllocKind::Nccl => AliasMapping::of(gpu, address).inspect_err(|_| {
            // SAFETY: NCCL allocated it above; nobody knows the address.
            if let Err(error) = unsafe { crate::nccl::free(address) } {
                log::warn!("{error}");
            }
        })?,
    };
    Ok(Raw { address, bytes, kind, alias })
}

// SAFETY: a block has at least `bytes` bytes from its allocator, aligned to 512, and is zeroed
// before anybody sees it. It returns to the list of its device, which frees nothing by itself, and
// is reused only after all work that may use it is over. An adopted block belongs to its owner, who
// is dropped then.
unsafe impl Memory for CudaBackend {
    const KIND: &'static str = "cuda";
    type Block = Block;

    fn alloc(ordinal: u32, bytes: usize, kind: AllocKind) -> Result<Block> {
        Block::zeroed(Gpu::open(ordinal)?, bytes, kind)
    }

    fn whose(start: *mut u8, expected: u32) -> Option<u32> {
        super::whose::ordinal_or(start.expose_provenance(), expected)
    }

    unsafe fn adopt(ordinal: u32, start: *mut u8, bytes: usize) -> Result<Block> {
        let address = start.expose_provenance() as sys::CUdeviceptr;
        let raw = Raw { address, bytes, kind: AllocKind::Plain, alias: None };
        let gpu = Gpu::open(ordinal)?;
        // Also drops owners here, for a program that adopts in every step and allocates nothing.
        gpu.blocks.look(gpu);
        Ok(Block { raw, gpu })
    }

    unsafe fn alias(block: &Block, at: usize, bytes: usize) -> Result<Block> {
        let Raw { address, kind, ref alias, .. } = block.raw;
        let (address, alias) = (address + at as u64, alias.as_ref().map(|alias| alias.part(at)));
        let raw = Raw { address, bytes, kind, alias };
        block.gpu.blocks.look(block.gpu);
        Ok(Block { raw, gpu: block.gpu })
    }

    fn let_go(block: Block, owner: Option<Owner>, streams: Vec<Arc<CudaStream>>) {
        if let Some(owner) = owner {
            block.gpu.blocks.release(block.gpu, owner, streams);
        }
    }

    unsafe fn read(block: &Block, offset: usize, to: *mut u8, bytes: usize, _: Site) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let from = block.at(offset) as sys::CUdeviceptr;
        block.gpu.now("copying to the host", |stream| {
            // SAFETY: the caller keeps the range inside the block and writers away; `to` is the
            // caller's own memory, and `now` waits until it is written.
            unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, bytes, stream) }.result()
        })
    }

    unsafe fn write(
        block: &Block,
        offset: usize,
        from: *const u8,
        bytes: usize,
        _: Site,
    ) -> Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        let to = block.at(offset) as sys::CUdeviceptr;
        block.gpu.now("copying from the host", |stream| {
            // SAFETY: the caller keeps the range inside the block and every other use away; `now`
            // waits until `from` was read.
            unsafe { sys::cuMemcpyHtoDAsync_v2(to, from.cast(), bytes, stream) }.result()
        })
    }

    fn retire(block: Block, streams: Vec<Arc<CudaStream>>) {
        block.gpu.blocks.retire(block.raw, streams);
    }

    fn retire_exported(block: Block, owner: Option<Owner>, streams: Vec<Arc<CudaStream>>) {
        block.gpu.blocks.retire_exported(block.raw, owner, streams);
    }
}

#[cfg(test)]
mod tests {
    use super::{AllocKind, class};

    #[test]
    fn equal_requests_get_equal_blocks() {
        assert_eq!(class(0, AllocKind::Plain), 512);
        assert_eq!(class(513, AllocKind::Plain), 1024);
        assert_eq!(class(2 << 20, AllocKind::Plain), 2 << 20);
        assert_eq!(class((2 << 20) + 1, AllocKind::Plain), 4 << 20);
        assert_eq!(class(0, AllocKind::Nccl), 2 << 20);
        assert_eq!(class(5 << 20, AllocKind::Nccl), 6 << 20);
        assert!(class(usize::MAX, AllocKind::Plain) >= usize::MAX - (2 << 20));
    }
}

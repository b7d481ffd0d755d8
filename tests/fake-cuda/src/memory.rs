//! Device memory, which is host memory.

use std::alloc::{self, Layout};
use std::ptr;

use crate::code::Code;
use crate::state::{Answer, Refusal, State};

/// What the driver aligns memory to.
const ALIGNMENT: usize = 512;

/// The contents of new memory.
const RUBBISH: u8 = 0xcd;

/// A piece of device memory. The library keeps it after it is freed.
pub(crate) struct Piece {
    pub(crate) bytes: usize,
    pub(crate) device: usize,
    pub(crate) freed: bool,
}

/// New memory, never freed.
pub(crate) fn rubbish(bytes: usize) -> Option<u64> {
    let layout = Layout::from_size_align(bytes.max(1), ALIGNMENT).ok()?;
    // SAFETY: the size is not zero.
    let start = unsafe { alloc::alloc(layout) };
    if start.is_null() {
        return None;
    }
    // SAFETY: this many bytes were allocated.
    unsafe { start.write_bytes(RUBBISH, bytes) };
    Some(start.expose_provenance() as u64)
}

/// # Safety
///
/// There are this many values of this width, and nothing else uses them meanwhile.
pub(crate) unsafe fn set(to: u64, value: u32, (width, pitch): (usize, usize), count: usize) {
    if (width, pitch) == (1, 1) {
        let to = ptr::with_exposed_provenance_mut::<u8>(to as usize);
        // SAFETY: the caller's promise.
        unsafe { to.write_bytes(value as u8, count) };
        return;
    }
    for at in 0..count {
        let to = ptr::with_exposed_provenance_mut::<u8>(to as usize + at * pitch);
        // SAFETY: the caller's promise; a value has 4 bytes at least.
        unsafe { to.copy_from(value.to_ne_bytes().as_ptr(), width) };
    }
}

/// # Safety
///
/// There are this many bytes on both sides, and nothing else uses them meanwhile.
pub(crate) unsafe fn copy(to: u64, from: u64, bytes: usize) {
    let to = ptr::with_exposed_provenance_mut::<u8>(to as usize);
    let from = ptr::with_exposed_provenance::<u8>(from as usize);
    // SAFETY: the caller's promise.
    unsafe { ptr::copy(from, to, bytes) };
}

impl State {
    /// New memory on a device, if its limit allows.
    pub(crate) fn allocate(&mut self, device: usize, bytes: usize) -> Result<u64, Refusal> {
        let none = Refusal::Plain(Code::OUT_OF_MEMORY);
        if self.used(device).saturating_add(bytes) > self.limit {
            return Err(none);
        }
        let address = rubbish(bytes).ok_or(none)?;
        self.pieces.insert(address, Piece { bytes, device, freed: false });
        Ok(address)
    }

    /// How much memory of a device is allocated.
    pub(crate) fn used(&self, device: usize) -> usize {
        let pieces = self.pieces.values().filter(|piece| piece.device == device && !piece.freed);
        pieces.map(|piece| piece.bytes).sum()
    }

    /// Memory that starts here and is not freed.
    pub(crate) fn live(&mut self, address: u64) -> Result<&mut Piece, Refusal> {
        let found = self.pieces.get_mut(&address).filter(|piece| !piece.freed);
        found.ok_or_else(|| {
            Refusal::value(format!("{address:#x} is no memory of this library, or freed"))
        })
    }

    /// The piece that contains an address, and its start.
    pub(crate) fn piece(&self, address: u64) -> Option<(u64, &Piece)> {
        let (start, piece) = self.pieces.range(..=address).next_back()?;
        (address - start < piece.bytes as u64).then_some((*start, piece))
    }

    /// Refuses a range that begins in memory of this library and does not end in it.
    pub(crate) fn reaches(&self, address: u64, bytes: usize) -> Answer {
        let range = self.ranges.range(..=address).next_back();
        if range.is_some_and(|(start, range)| address - start < range.bytes as u64) {
            return Err(Refusal::value(format!(
                "nothing is behind {address:#x}, a second address"
            )));
        }
        let Some((start, piece)) = self.piece(address) else { return Ok(()) };
        let inside = (address - start) as usize + bytes <= piece.bytes;
        match (piece.freed, inside) {
            (false, true) => Ok(()),
            (true, _) => Err(Refusal::value(format!("{address:#x} is freed memory"))),
            (false, false) => {
                let has = piece.bytes;
                let words =
                    format!("{bytes} bytes from {address:#x} on end past {has} of {start:#x}");
                Err(Refusal::value(words))
            }
        }
    }
}

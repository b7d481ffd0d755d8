//! Second addresses of foreign memory. Nothing is behind them.

use crate::state::{Answer, Refusal, State};

/// The granularity of ranges.
const PAGE: usize = 2 << 20;

/// Reserved addresses.
pub(crate) struct Range {
    pub(crate) bytes: usize,
    /// Whether they are mapped to memory.
    pub(crate) mapped: bool,
    /// Whether a device may use them.
    pub(crate) allowed: bool,
}

impl State {
    /// New addresses, without memory and never reserved before.
    pub(crate) fn reserve(&mut self, bytes: usize) -> Result<u64, Refusal> {
        if bytes == 0 || !bytes.is_multiple_of(PAGE) {
            return Err(Refusal::value(format!("{bytes} bytes are no pages")));
        }
        let start = (0xadd << 40) | self.reserved;
        self.reserved += bytes as u64;
        self.ranges.insert(start, Range { bytes, mapped: false, allowed: false });
        Ok(start)
    }

    /// The whole of a reserved range.
    pub(crate) fn range(&mut self, start: u64, bytes: usize) -> Result<&mut Range, Refusal> {
        let found = self.ranges.get_mut(&start).filter(|range| range.bytes == bytes);
        found.ok_or_else(|| Refusal::value(format!("{start:#x} is no range of {bytes} bytes")))
    }

    /// Refuses a value that is not a handle of memory.
    pub(crate) fn retained(&self, handle: u64) -> Answer {
        match self.retained.contains(&handle) {
            true => Ok(()),
            false => Err(Refusal::value(format!("{handle:#x} is no handle of memory"))),
        }
    }

    /// The size of the memory at an address, if it has a handle.
    pub(crate) fn has_handle(&self, address: u64) -> Option<usize> {
        // Memory of `cuMemAlloc` has none.
        let is_own = self.piece(address).is_some();
        Some(self.virtual_piece).filter(|bytes| *bytes > 0 && !is_own)
    }
}

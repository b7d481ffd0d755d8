//! How much of a file is looked at: what is larger is refused, not run out of memory with.

/// Bytes of a file.
pub(crate) const BYTES: usize = 256 << 20;

/// Nodes of an XML file.
pub(crate) const NODES: u32 = 16 << 20;

/// Ranks.
pub(crate) const RANKS: u32 = 4096;

/// Cells of all buffers of all ranks.
pub(crate) const CELLS: u32 = 2 << 20;

/// Threads, proxies and users whose order is followed.
pub(crate) const LINES: usize = 8192;

/// What all steps do.
pub(crate) const ACTS: usize = 8 << 20;

/// Into how many cells a chunk is divided.
pub(crate) const FINE: u32 = 4096;

/// How many contributions are added up in all.
pub(crate) const SUMS: u64 = 1 << 30;

/// Problems of one kind that are reported.
pub(crate) const PROBLEMS: usize = 8;

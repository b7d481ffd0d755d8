//! NCCL's memory: files that other ranks map as well.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Mutex, MutexGuard, PoisonError};

use nccl_sys::ncclResult_t;

use super::os::Shared;
use crate::state::{Answer, Refusal};

struct Piece {
    shared: Shared,
    path: PathBuf,
}

/// By address.
static PIECES: Mutex<BTreeMap<usize, Piece>> = Mutex::new(BTreeMap::new());

fn pieces() -> MutexGuard<'static, BTreeMap<usize, Piece>> {
    PIECES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// New zeroed memory; returns its address.
pub(crate) fn allocate(folder: &Path, bytes: usize) -> Result<usize, Refusal> {
    static MADE: AtomicUsize = AtomicUsize::new(0);
    let made = MADE.fetch_add(1, Relaxed);
    let path = folder.join(format!("memory.{}.{made}", process::id()));
    let shared = Shared::create(&path, bytes).map_err(|error| Refusal {
        result: ncclResult_t::ncclUnhandledCudaError,
        words: format!("{}: {error}", path.display()),
    })?;
    let address = shared.start().expose_provenance();
    pieces().insert(address, Piece { shared, path });
    Ok(address)
}

/// Frees memory; other ranks keep their mappings.
pub(crate) fn free(address: usize) -> Answer {
    let piece = pieces().remove(&address);
    let words = || Refusal::argument(format!("{address:#x} is no memory of this library"));
    let piece = piece.ok_or_else(words)?;
    // The file may be gone already.
    let _ = fs::remove_file(&piece.path);
    Ok(())
}

/// The file that contains an address, and the offset.
pub(crate) fn find(address: usize) -> Option<(PathBuf, usize)> {
    let pieces = pieces();
    let (start, piece) = pieces.range(..=address).next_back()?;
    let offset = address - start;
    (offset < piece.shared.len()).then(|| (piece.path.clone(), offset))
}

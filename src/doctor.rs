//! What `typed-nccl doctor` asks this library: how it would read the environment.

use crate::Result;
use crate::launcher::{self, Variables};

/// What a launcher's variables say of this process.
#[derive(Debug)]
pub struct Launch {
    /// The launcher, this process's rank and the number of ranks, in a sentence.
    pub says: String,
    /// This process's rank.
    pub rank: u32,
    /// The number of ranks.
    pub size: usize,
    /// Where rank 0 listens: it takes the first of these that is free.
    pub addresses: Vec<String>,
}

/// The launcher that started this process, if one did.
///
/// # Errors
/// Variables that contradict each other, are incomplete, or do not parse.
pub fn launch() -> Result<Option<Launch>> {
    let variables = Variables::here();
    let Some(found) = launcher::find(&variables)? else { return Ok(None) };
    let addresses = found.place(&variables)?.addresses;
    let (rank, size) = (found.launched.rank, found.launched.size);
    Ok(Some(Launch { says: found.launched.to_string(), rank, size, addresses }))
}

/// The variables of NCCL's for which a communicator, a window, a graph or a signal is refused, each
/// with the reason.
pub fn refused_variables() -> Vec<String> {
    #[cfg(feature = "cuda")]
    let refused = crate::nccl::refused_variables();
    #[cfg(not(feature = "cuda"))]
    let refused = Vec::new();
    refused
}

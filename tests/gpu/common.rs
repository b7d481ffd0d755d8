//! What several tests use.

use std::time::{Duration, Instant};

use typed_nccl::{CommConfig, Communicator, Cuda, Device, Error, Place, Result};

/// How many ranks a test takes: all GPUs, eight at most.
pub(crate) fn ranks() -> Result<usize> {
    Ok(Cuda::count()?.min(8))
}

/// Connects with a deadline of so many seconds.
pub(crate) fn connect<D: Device>(place: Place<D>, seconds: u64) -> Result<Communicator<D>> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().deadline(Duration::from_secs(seconds)).build();
    Communicator::builder().seat(seat).device(device).config(config).build().connect()
}

/// The message has all of these parts.
pub(crate) fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// It did not take so long that somebody must have waited for a deadline.
pub(crate) fn soon(since: Instant) {
    let took = since.elapsed();
    assert!(took < Duration::from_secs(20), "it took {took:?}");
}

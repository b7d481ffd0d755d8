//! Helpers of several tests.

use std::thread;
use std::time::{Duration, Instant};

use typed_nccl::{AnyDevice, CommConfig, Communicator, Cuda, Device, Error, Place, Result};

use crate::runner;

/// The most ranks possible.
pub(crate) fn most() -> Result<usize> {
    Ok(Cuda::count()? * runner::shared())
}

/// The number of ranks in a test: as many as possible, eight at most.
pub(crate) fn ranks() -> Result<usize> {
    Ok(most()?.min(8))
}

/// The GPU of a rank.
pub(crate) fn gpu(rank: usize) -> Result<Cuda<AnyDevice>> {
    Cuda::any((rank % Cuda::count()?) as u32)
}

/// Two GPUs, if there are two.
pub(crate) fn apart() -> Result<Option<[Cuda<AnyDevice>; 2]>> {
    if Cuda::count()? < 2 {
        println!("SKIPPED: there is one GPU");
        return Ok(None);
    }
    Ok(Some([Cuda::any(0)?, Cuda::any(1)?]))
}

/// This many seconds, or ten times as many under a program that slows everything down.
pub(crate) fn seconds(n: u64) -> Duration {
    Duration::from_secs(n * runner::slower())
}

/// Connects with a deadline in seconds.
pub(crate) fn connect<D: Device>(place: Place<D>, n: u64) -> Result<Communicator<D>> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().deadline(seconds(n)).build();
    Communicator::builder().seat(seat).device(device).config(config).build().connect()
}

/// Connects without haste; calls from then on have this deadline.
pub(crate) fn connect_for<D: Device>(
    place: Place<D>,
    deadline: Duration,
) -> Result<Communicator<D>> {
    let (seat, device) = place.into_parts();
    let config = CommConfig::builder().deadline(deadline).build();
    let comm = Communicator::builder().seat(seat).device(device).config(config).build();
    comm.start()?.ready().wait_until(Instant::now() + seconds(30))
}

/// The error by which a communicator ends soon.
pub(crate) fn told<D: Device>(comm: &Communicator<D>) -> Error {
    let started = Instant::now();
    loop {
        if let Err(error) = comm.health() {
            return error;
        }
        assert!(started.elapsed() < seconds(20), "it does not end");
        thread::sleep(Duration::from_millis(1));
    }
}

/// An amount of work that keeps a GPU busy for a while; the doubles are slower by this factor.
pub(crate) fn busy(much: usize, factor: usize) -> usize {
    if std::env::var_os("FAKE_CUDA_DEVICES").is_some() { much / factor } else { much }
}

/// The message has all of these parts.
pub(crate) fn says(error: &Error, parts: &[&str]) {
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "`{part}` is missing in: {text}");
    }
}

/// It returned well before any deadline.
pub(crate) fn soon(since: Instant) {
    let took = since.elapsed();
    assert!(took < seconds(20), "it took {took:?}");
}

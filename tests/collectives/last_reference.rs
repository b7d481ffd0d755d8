//! A finished operation may hold the last reference to a buffer, and thereby to the stream that
//! used it.
//!
//! Dropping it closes the stream, which takes the engine's lock, so this must not happen under that
//! lock.

use std::sync::{Arc, Barrier};
use std::thread;

use typed_nccl::{Host, Result, Sum};

use crate::own_process::inside;

/// While workers are busy, the rank itself moves the data. The job may stay in the engine's list
/// after all other references to its buffer are gone, until a worker looks.
#[test]
fn a_worker_meets_a_job_that_holds_the_last_buffer() -> Result<()> {
    if !inside("a_worker_meets_a_job_that_holds_the_last_buffer") {
        return Ok(());
    }
    let host = Host::local()?;
    let workers = thread::available_parallelism().map_or(1, usize::from);
    let (busy, free) = (Arc::new(Barrier::new(workers + 1)), Arc::new(Barrier::new(workers + 1)));
    let mut streams = Vec::new();
    for _ in 0..workers {
        let (busy, free) = (busy.clone(), free.clone());
        let stream = host.stream()?;
        stream.launch((), move |(), ()| {
            busy.wait();
            free.wait();
        })?;
        streams.push(stream);
    }
    busy.wait();
    Host::spmd(1, |place| -> Result<()> {
        let comm = place.init()?;
        let mut x = comm.device().from_slice(&[1_u8; 300 * 1024])?;
        comm.all_reduce_in_place(&mut x, Sum)?;
        comm.stream().sync()?;
        comm.finish()
    })?;
    free.wait();
    for stream in &streams {
        stream.sync()?;
    }
    // The engine still responds.
    host.stream()?.sync()
}

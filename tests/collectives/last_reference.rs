//! A finished operation may be the last that holds a buffer, and with it the stream that used it.
//!
//! Letting go of them closes the stream, which takes the engine's lock: it must not happen under that
//! lock.

use std::sync::{Arc, Barrier};
use std::thread;

use typed_nccl::{Host, Result, Sum};

use crate::own_process::inside;

/// While workers are busy the rank itself moves the data, and the job may stay in the engine's list
/// when everybody else has let go of its buffer, until a worker looks.
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
    // The engine still answers.
    host.stream()?.sync()
}

//! Late ranks: deadlines of single calls, reports of a communicator's state, and stragglers.

mod stragglers;
mod watch;
mod within;

use std::sync::mpsc::channel;
use std::time::Duration;

use typed_nccl::{AnyDevice, CommConfig, Communicator, Host, Result, Seat};

use crate::ranks::connect;

type Anywhere = Host<AnyDevice>;

/// Runs a body on each of several ranks with this configuration, and waits for all of them. A hang
/// is reported.
fn ranks(
    n: usize,
    config: impl Fn(usize) -> CommConfig,
    body: impl Fn(Communicator<Anywhere>) -> Result<()> + Send + Sync + 'static,
) {
    let body = std::sync::Arc::new(body);
    let (told, hears) = channel();
    for seat in Seat::local(n) {
        let (body, told, config) = (body.clone(), told.clone(), config(seat.rank().index()));
        std::thread::spawn(move || {
            let rank = seat.rank().index();
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let device = Host::any(rank as u32)?;
                let comm = Communicator::builder().seat(seat).device(device).config(config);
                body(connect(comm.build())?)
            }));
            let _ = told.send((rank, outcome.map_err(drop)));
        });
    }
    for _ in 0..n {
        let (rank, outcome) = hears.recv_timeout(Duration::from_secs(60)).expect("no rank hangs");
        match outcome {
            Ok(outcome) => outcome.unwrap_or_else(|error| panic!("rank {rank}: {error}")),
            Err(()) => panic!("rank {rank} panicked"),
        }
    }
}

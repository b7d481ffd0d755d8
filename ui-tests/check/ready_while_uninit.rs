//! A communicator is waited for once it was started.

use std::time::{Duration, Instant};

use typed_nccl::{Communicator, Host, Result, Seat};

fn main() -> Result<()> {
    let (seat, deadline) = (Seat::local(1).remove(0), Instant::now() + Duration::from_secs(60));
    let comm = Communicator::builder().seat(seat).device(Host::local()?).build();
    comm.ready(deadline)?.finish()
}

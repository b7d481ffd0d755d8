//! A communicator moves between threads and is not shared.

use typed_nccl::{Communicator, Host};

fn worker<T: Sync>() {}

fn main() {
    worker::<Communicator<Host>>();
}

//! The child ends, and its parent goes on.

use typed_nccl::{Communicator, Host, Recovery, Result, tag};

tag!(Node);

fn go_on(comm: &mut Communicator<Host>) -> Result<Recovery> {
    let child = comm.split_shared::<Node>(0, 0)?;
    child.abort();
    comm.recover()
}

fn main() {
    _ = go_on;
}

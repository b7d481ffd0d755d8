//! The child ends, and its parent goes on.

use typed_nccl::{Communicator, Host, Recovery, Result, SharedChild, tag};

tag!(Node);

fn work(_: &SharedChild<'_, Node<Host>>) -> Result<()> {
    Ok(())
}

fn go_on(comm: &mut Communicator<Host>) -> Result<Recovery> {
    let child = comm.split_shared::<Node>(0, 0)?;
    match work(&child) {
        Ok(()) => child.finish()?,
        Err(_) => drop(child.abort()),
    }
    comm.recover()
}

fn main() {
    _ = go_on;
}

//! The child ends, and its parent grows.

use typed_nccl::{Communicator, Host, Invitation, Result, tag};

tag!(Node);

fn one_more(comm: &mut Communicator<Host>) -> Result<Invitation> {
    let child = comm.split_shared::<Node>(0, 0)?;
    child.finish()?;
    comm.invite(1)
}

fn main() {
    _ = one_more;
}

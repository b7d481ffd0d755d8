//! They meet first.

use typed_nccl::{Communicator, Host, Result, Uninit};

fn two_more(comm: Communicator<Host, Uninit>) -> Result<Communicator<Host>> {
    let comm = comm.connect()?;
    let invitation = comm.invite(2)?;
    comm.grow(invitation)
}

fn main() {
    _ = two_more;
}

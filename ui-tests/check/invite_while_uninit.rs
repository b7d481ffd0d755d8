//! Its ranks have not met.

use typed_nccl::{Communicator, Host, Invitation, Result, Uninit};

fn two_more(comm: &Communicator<Host, Uninit>) -> Result<Invitation> {
    comm.invite(2)
}

fn main() {
    _ = two_more;
}

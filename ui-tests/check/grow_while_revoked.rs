//! Who lives is not known yet.

use typed_nccl::{Communicator, Host, Invitation, Result, Revoked};

fn go_on(
    comm: Communicator<Host, Revoked>,
    invitation: Invitation,
) -> Result<Communicator<Host, Revoked>> {
    comm.grow(invitation)
}

fn main() {
    _ = go_on;
}

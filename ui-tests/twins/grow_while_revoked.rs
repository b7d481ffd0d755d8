//! Those who live are agreed on; then newcomers join them.

use typed_nccl::{Communicator, Host, Invitation, Result, Revoked};

fn go_on(
    comm: Communicator<Host, Revoked>,
    send: impl Fn(&Invitation),
) -> Result<Communicator<Host>> {
    let comm = comm.shrink(&[])?;
    let invitation = comm.invite(1)?;
    send(&invitation);
    comm.grow(invitation)
}

fn main() {
    _ = |comm| go_on(comm, |_| {});
}

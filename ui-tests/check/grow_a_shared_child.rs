//! A child that shares its parent's resources has none of its own for newcomers.

use typed_nccl::{Host, Invitation, Result, SharedChild};

fn one_more(comm: &SharedChild<'_, Host>) -> Result<Invitation> {
    comm.invite(1)
}

fn main() {
    _ = one_more;
}

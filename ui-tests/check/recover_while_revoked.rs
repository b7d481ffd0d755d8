//! A revoked communicator is shrunk; it is not recovered in place.

use typed_nccl::{Communicator, Host, Recovery, Result, Revoked};

fn go_on(comm: &mut Communicator<Host, Revoked>) -> Result<Recovery> {
    comm.recover()
}

fn main() {
    _ = go_on;
}

//! A child that shares its parent's resources has none of its own to go on with.

use typed_nccl::{Host, Recovery, Result, SharedChild};

fn go_on(comm: &mut SharedChild<'_, Host>) -> Result<Recovery> {
    comm.recover()
}

fn main() {
    _ = go_on;
}

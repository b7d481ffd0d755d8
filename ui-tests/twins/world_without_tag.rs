//! A communicator's type names a device, or what `tag!` minted.

use typed_nccl::{Communicator, tag};

tag!(Gradients);

fn average(_: &Communicator<Gradients>) {}

fn main() {
    _ = average;
}

//! A communicator's type names a device, or what `tag!` minted.

use typed_nccl::Communicator;

struct Gradients;

fn average(_: &Communicator<Gradients>) {}

fn main() {
    _ = average;
}

//! NCCL refuses a barrier of all ranks over connections within a rail, when the device communicator is made.

use typed_nccl::{Gin, Requirements};

fn main() {
    let _needs = Requirements::new().gin(Gin::same_rail().world_barriers(1));
}

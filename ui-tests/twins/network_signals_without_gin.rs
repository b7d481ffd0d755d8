//! Signals of kernels over the network are asked for with the connections that they take.

use typed_nccl::{Gin, Requirements};

fn main() {
    let _needs = Requirements::new().lsa_barriers(4).gin(Gin::every_rank().signals(8));
}

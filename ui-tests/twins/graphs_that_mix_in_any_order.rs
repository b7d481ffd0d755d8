//! NCCL orders graphs that are mixed with direct calls: the program cannot.

use typed_nccl::{CaptureOrder, CommConfig, GraphUse};

fn main() {
    CommConfig::builder().graphs(GraphUse::One(CaptureOrder::Free)).build();
}

//! Schedules that MSCCL, MSCCL++ and textbooks publish, where the library has no plan of them.

#![allow(dead_code, unreachable_pub, missing_docs, reason = "for several programs")]

pub mod all_to_all;
pub mod doubling;
pub mod nodes;
pub mod pairs;
pub mod pipelines;
pub mod puts;
pub mod rings;
pub mod training;
pub mod trees;

use typed_nccl::plan::Plan;

/// All of them.
pub fn all() -> Vec<&'static Plan> {
    vec![
        rings::ring_all_gather::plan(),
        rings::pipeline_ring::plan(),
        pairs::pairs_all_gather::plan(),
        pairs::local_tree_all_reduce::plan(),
        doubling::doubling_all_gather::plan(),
        doubling::ncv4_all_reduce::plan(),
        trees::mirrored_trees_all_reduce::plan(),
        trees::binary_tree_broadcast::plan(),
        nodes::pcie_all_reduce::plan(),
        nodes::ndv2_all_reduce::plan(),
        nodes::dgx1_all_reduce::plan(),
        nodes::blue_connect::plan(),
        nodes::reduce_gather::plan(),
        all_to_all::pairs_all_to_all::plan(),
        all_to_all::to_both::plan(),
        all_to_all::routed::plan(),
        puts::ring_all_to_all::plan(),
        puts::multi_all_gather::plan(),
        pipelines::zero_bubble::plan(),
        training::fsdp::plan(),
        training::sequence_parallel::plan(),
        training::halo_3d::plan(),
    ]
}

//! Schedules that msccl-tools (M), MSCCL++ (P) and textbooks (T) publish: those of the library, and
//! those that are plans of these tests. Each has its claim, and is bound and run for each number of
//! ranks for which it is defined, with few elements; and with 1 MiB a rank on the most ranks up to
//! eight. `PUBLISHED=full` does that on all.
//!
//! | schedule | | plan | ranks |
//! |---|---|---|---|
//! | allreduce ring | M | `ring_all_reduce` of the library | any |
//! | allgather ring | M | `ring_all_gather` | any |
//! | allgather allpairs | M | `pairs_all_gather` | any |
//! | allgather recursive doubling | M | `doubling_all_gather` | 1, 2, 4, 8, 16 |
//! | allreduce one step | M | `one_shot_all_reduce` of the library | any |
//! | allreduce allpairs | M | `two_shot_all_reduce` of the library | any |
//! | allpairs v2, local tree | M | `local_tree_all_reduce` | 1, 2, 4, 8, 16 |
//! | PCIe hierarchical | M | `pcie_all_reduce` | any mesh |
//! | ncv4 | M | `ncv4_all_reduce` | 4 |
//! | Rabenseifner | M | `halving_all_reduce` of the library | 1, 2, 4, 8, 16 |
//! | two mirrored binomial trees | M | `mirrored_trees_all_reduce` | 1, 2, 4, 8, 16 |
//! | ndv2 | M | `ndv2_all_reduce` | 8 |
//! | dgx1, two nodes | M | `dgx1_all_reduce` | 16 |
//! | hierarchical (BlueConnect) | M | `blue_connect`; `hierarchical_all_reduce` of the library | any mesh |
//! | alltoall allpairs | M | `pairs_all_to_all` | any |
//! | alltoall two-step | M | `two_step_all_to_all` of the library | any mesh |
//! | alltoall three-step | M | `three_step_all_to_all` of the library | any mesh |
//! | alltonext forward | M | `all_to_next` of the library | any mesh |
//! | pipeline ring | M | `pipeline_ring` | 2, 4, 8, 16 |
//! | reducegather | M | `reduce_gather` | any mesh |
//! | custom collective | M | `to_both` | 3 |
//! | alltoall ring (puts) | P | `ring_all_to_all` | any |
//! | allgather multi (puts) | P | `multi_all_gather` | any mesh |
//! | Bruck alltoall | T | `bruck_all_to_all` of the library | any |
//! | binary-tree broadcast, pipelined | T | `binary_tree_broadcast` | any |
//! | 2D torus | T | `torus_all_reduce` of the library | any mesh |
//! | double binary tree | T | `double_tree_all_reduce` of the library | any |
//! | dispatch and combine, counts with zeros | T | `routed` | any |
//! | zero-bubble H1 | T | `zero_bubble` | 2 to 16 |
//! | FSDP with prefetch | T | `fsdp` | any |
//! | tensor and sequence parallel, both ways | T | `sequence_parallel` | any |
//! | halo 3D | T | `halo_3d` | any mesh |

mod all_to_all;
mod doubling;
mod harness;
mod nodes;
mod pairs;
mod pipelines;
#[path = "plans/mod.rs"]
mod plans;
mod puts;
mod rings;
mod training;
mod trees;

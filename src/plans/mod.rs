//! Plans to use as they are, or to start from.
//!
//! Each is declared with [`plan!`](crate::plan!), was checked for the sizes that it lists when this
//! crate was compiled, and is used like a plan of your own: all ranks call its `bind` to make it
//! ready on a communicator, and `Bound::run` as often as needed. The host waits for no run, and no
//! synchronisation is needed between runs.
//!
//! | | what | ranks | your steps |
//! |---|---|---|---|
//! | [`ring_exchange`] | a shift to the next rank | any | |
//! | [`halo_1d`] | edges to both neighbours, one-sided, overlapped with the interior | any | `interior`, `edges` |
//! | [`halo_2d`] | the same on a torus | any `rows` by `cols` | `pack`, `interior`, `finish` |
//! | [`hierarchical_all_reduce`] | within nodes, between them, within them | any `nodes` by `local` | |
//! | [`torus_all_reduce`] | along rows and columns, in parts | any `rows` by `cols` | |
//! | [`ring_all_reduce`] | parts around a ring | any | |
//! | [`tree_all_reduce`] | along a binomial tree and back | any | |
//! | [`double_tree_all_reduce`] | halves along two binary trees, in pieces | any | |
//! | [`doubling_all_reduce`] | recursive doubling | 1, 2, 4 and so on | |
//! | [`halving_all_reduce`] | recursive halving and doubling (Rabenseifner) | 1, 2, 4 and so on | |
//! | [`one_shot_all_reduce`] | everything to all others | any | |
//! | [`two_shot_all_reduce`] | a part to each, then the sums to all | any | |
//! | [`bruck_all_to_all`] | one message a round | any | |
//! | [`two_step_all_to_all`] | within nodes, then between them | any `nodes` by `local` | |
//! | [`three_step_all_to_all`] | one message from node to node | any `nodes` by `local` | |
//! | [`all_to_next`] | a shift; between nodes in parts through all ranks | any `nodes` by `local` | |
//! | [`grad_sync`] | averages buckets of gradients, overlapped with backward | any | `backward`, `apply` |
//! | [`pipeline_forward`] | micro-batches from stage to stage | 2 or more | `fwd` |
//! | [`one_f1b`] | a pipeline's training step | 2 to 8, 16 | `fwd`, `bwd` |
//! | [`expert_exchange`] | tokens to experts and back | any | `experts` |
//! | [`tree_broadcast`] | broadcasts from rank 0 along a tree | any | |
//! | [`barrier`] | synchronises all streams | 1 to 16 | |
//!
//! The timeline in the documentation of each is from `Bound::describe` at a small size.
//!
//! To change one, copy its declaration into your program: the source of its module contains it.

mod bruck;
mod dissemination;
mod doubling;
mod experts;
mod gradients;
mod halo;
mod hierarchical;
mod next;
mod one_f_one_b;
mod pipeline;
mod ring;
mod ring_sum;
mod shots;
mod torus;
mod tree;

pub use bruck::bruck_all_to_all;
pub use bruck::three_step_all_to_all;
pub use bruck::two_step_all_to_all;
pub use dissemination::barrier;
pub use doubling::doubling_all_reduce;
pub use doubling::halving_all_reduce;
pub use experts::expert_exchange;
pub use gradients::grad_sync;
pub use halo::halo_1d;
pub use hierarchical::hierarchical_all_reduce;
pub use hierarchical::torus_all_reduce;
pub use next::all_to_next;
pub use one_f_one_b::one_f1b;
pub use pipeline::pipeline_forward;
pub use ring::ring_exchange;
pub use ring_sum::ring_all_reduce;
pub use shots::one_shot_all_reduce;
pub use shots::two_shot_all_reduce;
pub use torus::halo_2d;
pub use tree::double_tree_all_reduce;
pub use tree::tree_all_reduce;
pub use tree::tree_broadcast;

//! Plans that are ready to use, and to start from.
//!
//! Each is declared with [`plan!`](crate::plan!), was checked for all sizes that it names when this
//! crate was compiled, and is used as a plan of your own: its `bind` makes it ready on a communicator,
//! with all ranks together, and `Bound::run` runs it as often as you like. The host waits for no run,
//! and nothing has to stand between two.
//!
//! | | what | ranks | your steps |
//! |---|---|---|---|
//! | [`ring_exchange`] | to the next rank, from the one before | any | |
//! | [`halo_1d`] | edges to both neighbours, one-sided, beside the interior | any | `interior`, `edges` |
//! | [`halo_2d`] | the same on a torus | any `rows` by `cols` | `pack`, `interior`, `finish` |
//! | [`hierarchical_all_reduce`] | within nodes, between them, within them | any `nodes` by `local` | |
//! | [`grad_sync`] | averages buckets of gradients beside backward | any | `backward`, `apply` |
//! | [`pipeline_forward`] | micro-batches from stage to stage | 2 or more | `fwd` |
//! | [`one_f1b`] | a pipeline's training step | 2 to 8, 16 | `fwd`, `bwd` |
//! | [`expert_exchange`] | tokens to experts and back | any | `experts` |
//! | [`tree_broadcast`] | rank 0's, along a tree | 1 to 16 | |
//! | [`barrier`] | all streams meet | 1 to 16 | |
//!
//! The timeline in each one's documentation is what `Bound::describe` says at a small size.
//!
//! To change one, copy its declaration into your program: its text is the source of its module.

mod dissemination;
mod experts;
mod gradients;
mod halo;
mod hierarchical;
mod one_f_one_b;
mod pipeline;
mod ring;
mod torus;
mod tree;

pub use dissemination::barrier;
pub use experts::expert_exchange;
pub use gradients::grad_sync;
pub use halo::halo_1d;
pub use hierarchical::hierarchical_all_reduce;
pub use one_f_one_b::one_f1b;
pub use pipeline::pipeline_forward;
pub use ring::ring_exchange;
pub use torus::halo_2d;
pub use tree::tree_broadcast;

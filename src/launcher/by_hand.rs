//! PyTorch's variables without torchrun: set by a script, by Kubernetes' operators, by `deepspeed`
//! or `accelerate`. PyTorch's documentation, "torch.distributed", section "Environment variable
//! initialization". `LOCAL_RANK` is not part of it.

use super::{Launcher, RendezvousAddress, Variables, torchrun};

pub(super) const BY_HAND: Launcher = Launcher {
    name: "whoever set RANK and WORLD_SIZE",
    marks: &["RANK", "WORLD_SIZE"],
    but: |variables: &Variables| variables.is_set(torchrun::RUN_ID),
    rank: "RANK",
    size: &["WORLD_SIZE"],
    local_rank: "LOCAL_RANK",
    is_local_known: false,
    also: &torchrun::MASTER,
    depth: 3,
    with_address: "TYPED_NCCL_ADDRESS=node1:29400 program",
    // Its ranks have only a port in common.
    place: |variables, launched| {
        Ok(RendezvousAddress { is_unique: false, ..torchrun::place(variables, launched)? })
    },
};

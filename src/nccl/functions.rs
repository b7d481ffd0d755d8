//! The NCCL function of each collective, with and without a configuration of the call.

use std::ffi::{c_int, c_void};

use nccl_sys::{
    MissingSymbol, ncclAllGather, ncclAllGatherConfig, ncclAllReduce, ncclAllReduceConfig,
    ncclBroadcast, ncclBroadcastConfig, ncclCollConfig_t, ncclComm_t, ncclDataType_t, ncclRedOp_t,
    ncclReduce, ncclReduceConfig, ncclResult_t,
};

use super::api::Nccl;
use crate::error::CollectiveName;

/// The arguments of a collective's function.
pub(super) struct Arguments {
    pub(super) from: *mut c_void,
    pub(super) to: *mut c_void,
    pub(super) count: usize,
    pub(super) dtype: ncclDataType_t,
    pub(super) op: ncclRedOp_t,
    pub(super) root: c_int,
    pub(super) comm: ncclComm_t,
    pub(super) stream: *mut c_void,
}

/// A collective's function, by its arguments besides the memory.
macro_rules! functions {
    (
        $(#[$doc:meta])* $Function:ident($($config:ident: $Config:ty)?):
        $all_reduce:ident, $broadcast:ident, $reduce:ident, $all_gather:ident;
        $($name:ident: $Kind:ident($($function:tt)+),)+
    ) => {
        $(#[$doc])*
        pub(super) enum $Function {
            Moves($all_gather),
            Reduces($all_reduce),
            MovesRooted($broadcast),
            ReducesRooted($reduce),
        }

        impl $Function {
            /// # Errors
            /// The loaded NCCL lacks it.
            pub(super) fn of(nccl: &Nccl, name: CollectiveName) -> Result<Self, MissingSymbol> {
                Ok(match name {
                    $(CollectiveName::$name => Self::$Kind(nccl.$($function)+),)+
                })
            }

            /// # Safety
            /// The arguments are valid for the NCCL function. What they name lives until NCCL has
            /// finished with it, and a configuration until the group that contains the call has
            /// ended.
            pub(super) unsafe fn call(
                &self,
                of: &Arguments
                $(, $config: $Config)?
            ) -> ncclResult_t {
                let Arguments { from, to, count, dtype, op, root, comm, stream } = *of;
                match self {
                    // SAFETY: the caller's promise.
                    Self::Moves(function) => unsafe {
                        function(from, to, count, dtype, comm, stream $(, $config)?)
                    },
                    // SAFETY: as above.
                    Self::Reduces(function) => unsafe {
                        function(from, to, count, dtype, op, comm, stream $(, $config)?)
                    },
                    // SAFETY: as above.
                    Self::MovesRooted(function) => unsafe {
                        function(from, to, count, dtype, root, comm, stream $(, $config)?)
                    },
                    // SAFETY: as above.
                    Self::ReducesRooted(function) => unsafe {
                        function(from, to, count, dtype, op, root, comm, stream $(, $config)?)
                    },
                }
            }
        }
    };
}

functions! {
    /// The function without a configuration.
    Plain(): ncclAllReduce, ncclBroadcast, ncclReduce, ncclAllGather;
    AllReduce: Reduces(all_reduce),
    Broadcast: MovesRooted(broadcast),
    Reduce: ReducesRooted(reduce),
    AllGather: Moves(all_gather),
    ReduceScatter: Reduces(reduce_scatter),
    AllToAll: Moves(api.ncclAlltoAll()?),
    Gather: MovesRooted(api.ncclGather()?),
    Scatter: MovesRooted(api.ncclScatter()?),
}

functions! {
    /// The function that takes a configuration of the call.
    Configured(config: &ncclCollConfig_t):
    ncclAllReduceConfig, ncclBroadcastConfig, ncclReduceConfig, ncclAllGatherConfig;
    AllReduce: Reduces(api.ncclAllReduceConfig()?),
    Broadcast: MovesRooted(api.ncclBroadcastConfig()?),
    Reduce: ReducesRooted(api.ncclReduceConfig()?),
    AllGather: Moves(api.ncclAllGatherConfig()?),
    ReduceScatter: Reduces(api.ncclReduceScatterConfig()?),
    AllToAll: Moves(api.ncclAlltoAllConfig()?),
    Gather: MovesRooted(api.ncclGatherConfig()?),
    Scatter: MovesRooted(api.ncclScatterConfig()?),
}

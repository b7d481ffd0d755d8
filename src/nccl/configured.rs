//! Collectives with a configuration of their own: which functions of NCCL's they are.

use std::ffi::{c_int, c_void};

use nccl_sys::{
    MissingSymbol, ncclCollConfig_t, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t,
};

use super::api::Nccl;
use crate::error::CollectiveName;

/// What the function of a collective takes.
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

/// Calls the function of a collective that takes a configuration.
///
/// # Safety
/// As for the one that takes none; the configuration is whole, and what it names lives until the group
/// has ended that the call is in.
///
/// # Errors
/// The loaded NCCL has none.
pub(super) unsafe fn call(
    nccl: &Nccl,
    name: CollectiveName,
    arguments: &Arguments,
    config: &ncclCollConfig_t,
) -> Result<(&'static str, ncclResult_t), MissingSymbol> {
    let Arguments { from, to, count, dtype, op, root, comm, stream } = *arguments;
    let api = &nccl.api;
    Ok(match name {
        CollectiveName::AllReduce => {
            let function = api.ncclAllReduceConfig()?;
            // SAFETY: by the caller's promise.
            let result = unsafe { function(from, to, count, dtype, op, comm, stream, config) };
            ("ncclAllReduceConfig", result)
        }
        CollectiveName::Broadcast => {
            let function = api.ncclBroadcastConfig()?;
            // SAFETY: by the caller's promise.
            let result = unsafe { function(from, to, count, dtype, root, comm, stream, config) };
            ("ncclBroadcastConfig", result)
        }
        CollectiveName::Reduce => {
            let function = api.ncclReduceConfig()?;
            // SAFETY: by the caller's promise.
            let result =
                unsafe { function(from, to, count, dtype, op, root, comm, stream, config) };
            ("ncclReduceConfig", result)
        }
        CollectiveName::AllGather => {
            let function = api.ncclAllGatherConfig()?;
            // SAFETY: by the caller's promise.
            let result = unsafe { function(from, to, count, dtype, comm, stream, config) };
            ("ncclAllGatherConfig", result)
        }
        CollectiveName::ReduceScatter => {
            let function = api.ncclReduceScatterConfig()?;
            // SAFETY: by the caller's promise.
            let result = unsafe { function(from, to, count, dtype, op, comm, stream, config) };
            ("ncclReduceScatterConfig", result)
        }
        CollectiveName::AllToAll => {
            let function = api.ncclAlltoAllConfig()?;
            // SAFETY: by the caller's promise.
            let result = unsafe { function(from, to, count, dtype, comm, stream, config) };
            ("ncclAlltoAllConfig", result)
        }
        CollectiveName::Gather => {
            let function = api.ncclGatherConfig()?;
            // SAFETY: by the caller's promise.
            let result = unsafe { function(from, to, count, dtype, root, comm, stream, config) };
            ("ncclGatherConfig", result)
        }
        CollectiveName::Scatter => {
            let function = api.ncclScatterConfig()?;
            // SAFETY: by the caller's promise.
            let result = unsafe { function(from, to, count, dtype, root, comm, stream, config) };
            ("ncclScatterConfig", result)
        }
    })
}

//! The device of a process that is one rank.

#[cfg(feature = "cuda")]
use std::io::{self, Write as _};
#[cfg(feature = "cuda")]
use std::sync::Once;

#[cfg(feature = "cuda")]
use crate::error::{Error, LaunchFault};
use crate::launcher::Found;
use crate::{AnyDevice, Host, Result};
#[cfg(feature = "cuda")]
use crate::{Cuda, DeviceFamily, cuda, device};

/// Whether this process's rank is on a GPU: on a machine that has any. On others rank 0 says on
/// standard error that the ranks are on the CPU.
#[cfg(feature = "cuda")]
pub(super) fn is_gpu(found: &Found) -> bool {
    static SAID: Once = Once::new();
    let Some(why) = cuda::absent() else { return true };
    let ranks = match found.launched.size {
        1 => "1 rank runs".to_owned(),
        n => format!("{n} ranks run"),
    };
    if found.launched.rank == 0 {
        SAID.call_once(|| {
            // The reader may be gone.
            let _ = writeln!(
                io::stderr(),
                "typed-nccl: no GPU here ({why}): {ranks} on the CPU; TYPED_NCCL=host asks for that without this line"
            );
        });
    }
    false
}

/// This process's GPU.
#[cfg(feature = "cuda")]
pub(super) fn gpu(found: &Found) -> Result<Cuda<AnyDevice>> {
    device::own_gpu().and_then(Cuda::any).map_err(|error| match error {
        Error::NoSuchDevice(_) => {
            LaunchFault::NoGpu { launched: found.launched.clone(), why: error.to_string() }.into()
        }
        other => other,
    })
}

/// The number of GPUs to start processes for: all, if no number is asked for.
#[cfg(feature = "cuda")]
pub(super) fn gpus(asked: Option<usize>) -> Result<usize> {
    let n = asked.map_or_else(Cuda::count, Ok)?.max(1);
    Cuda::<AnyDevice>::ordinals(n)?;
    Ok(n)
}

/// This process's host device, numbered among those of its machine.
pub(super) fn host(found: &Found) -> Result<Host<AnyDevice>> {
    let launched = &found.launched;
    Host::any(launched.local_rank.unwrap_or(launched.rank))
}

//! A window for the network's kernels has no endpoints of counted transfers.

use typed_nccl::{GinOnly, Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let memory = comm.device().nccl_zeros::<f32>(8)?;
    let window = comm.register_window_as(memory, GinOnly)?;
    comm.endpoint_at(window.at(0), 0)?;
    comm.finish()
}

//! A window for the network cards of device code is no target for puts of the host.

use typed_nccl::{GinOnly, Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let source = comm.window::<f32>(8)?;
    let memory = comm.device().nccl_zeros::<f32>(8)?;
    let target = comm.register_window_as(memory, GinOnly)?;
    comm.put_signal(source.slice(0..4), 0, target.at(0))?;
    comm.wait_signal(0)?;
    comm.finish()
}

//! A put goes into a window that was registered for it.

use typed_nccl::{Host, Result, Seat, Symmetric};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let source = comm.window::<f32>(8)?;
    let memory = comm.device().nccl_zeros::<f32>(8)?;
    let target = comm.register_window_as(memory, Symmetric)?;
    comm.put_signal(source.slice(0..4), 0, target.at(0))?;
    comm.wait_signal(0)?;
    comm.finish()
}

//! A put reads from a window that was registered for it.

use typed_nccl::{Host, LocalOnly, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let memory = comm.device().nccl_zeros::<f32>(8)?;
    let source = comm.register_window_as(memory, LocalOnly)?;
    let target = comm.window::<f32>(8)?;
    comm.put_signal(source.slice(0..4), 0, target.at(0))?;
    comm.wait_signal(0)?;
    comm.finish()
}

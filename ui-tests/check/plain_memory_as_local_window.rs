//! A window of any kind is made of NCCL memory.

use typed_nccl::{Host, LocalOnly, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let memory = comm.device().zeros::<f32>(8)?;
    let own = comm.register_window_as(memory, LocalOnly)?;
    comm.close(own)?;
    comm.finish()
}

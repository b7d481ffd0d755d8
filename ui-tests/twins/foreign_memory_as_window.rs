//! A window is made of NCCL memory.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let memory = comm.device().nccl_zeros::<f32>(8)?;
    let ghost = comm.register_window(memory)?;
    comm.close(ghost)?;
    comm.finish()
}

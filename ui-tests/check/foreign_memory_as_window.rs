//! Memory of somebody else's cannot back a window.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let memory = comm.device().adopt(vec![0.0_f32; 8])?;
    let ghost = comm.register_window(memory)?;
    comm.close(ghost)?;
    comm.finish()
}

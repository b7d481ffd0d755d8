//! A window that was closed is a buffer.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let ghost = comm.window::<f32>(8)?;
    comm.put_signal(ghost.slice(0..4), 0, ghost.at(4))?;
    comm.wait_signal(0)?;
    comm.close(ghost)?;
    comm.finish()
}

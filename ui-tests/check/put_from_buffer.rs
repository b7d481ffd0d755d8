//! A put reads from registered memory.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let source = comm.device().zeros::<f32>(8)?;
    let target = comm.window::<f32>(8)?;
    comm.put_signal(source.slice(0..4), 0, target.at(0))?;
    comm.wait_signal(0)?;
    comm.finish()
}

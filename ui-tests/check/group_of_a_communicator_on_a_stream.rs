//! A group on another stream is begun by its communicator.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let (stream, x) = (comm.device().stream()?, comm.device().zeros::<f32>(8)?);
    let mut y = comm.device().zeros::<f32>(8)?;
    comm.on(&stream).group(|g| {
        g.send(&x, 0)?;
        g.recv(&mut y, 0)
    })?;
    comm.finish()
}

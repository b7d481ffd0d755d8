//! A group keeps its operands until it is issued: it takes views by value.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let (x, mut y) = (comm.device().zeros::<f32>(8)?, comm.device().zeros::<f32>(4)?);
    comm.group(|g| {
        g.send(&x.slice(0..4), 0)?;
        g.recv(&mut y, 0)
    })?;
    comm.finish()
}

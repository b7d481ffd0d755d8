//! A part of a communicator has a name of its own.

use typed_nccl::{Host, Result, Seat, tag};

tag!(Node);

fn main() -> Result<()> {
    let mut world = Seat::local(1).remove(0).init(Host::local()?)?;
    let part = world.split(0, 0)?;
    part.finish()?;
    world.finish()
}

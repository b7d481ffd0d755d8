//! A parent rests while a child that shares its resources lives.

use typed_nccl::{Host, Result, Seat, tag};

tag!(Node);

fn main() -> Result<()> {
    let mut world = Seat::local(1).remove(0).init(Host::local()?)?;
    let child = world.split_shared::<Node>(0, 0)?;
    child.finish()?;
    world.barrier()?;
    world.finish()
}

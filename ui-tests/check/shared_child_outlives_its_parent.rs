//! A child that shares its parent's resources ends first.

use typed_nccl::{Host, Result, Seat, tag};

tag!(Node);

fn main() -> Result<()> {
    let mut world = Seat::local(1).remove(0).init(Host::local()?)?;
    let child = world.split_shared::<Node>(0, 0)?;
    world.finish()?;
    child.finish()
}
